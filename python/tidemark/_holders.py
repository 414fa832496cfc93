"""Who holds a tensor: the variable, list, dict, attribute or closure through which the program still reaches it.

The search goes forward from the program's names: the locals of its frames in every thread, and the globals of its
modules, its classes among them. If something is still not found, it tries the loaders that a ``for`` loop holds without a name, and then the
frames of libraries. So a holder is a line of the program wherever there is one. The search follows lists, dicts,
attributes, closures and generators, breadth first, so that the shortest way to a tensor is named. Its time is bounded:
a data set of a million dicts must not stop a training loop. A tensor that is not reached has no holder here: one in a
cache inside an installed package, say, or in a variable of a generator that only a ``for`` loop holds.

No code of the program runs. What its classes define (``__getattr__``, ``__class__``, ``__len__``, ``items``) is never
called, because it may be slow, raise, or load a data set. Objects are read only by the methods of the built-in types.

Before Python 3.13, reading ``f_locals`` of a running function leaves a copy of its variables in the frame, which would
keep this step's tensors alive into the next. So that copy is emptied again.
"""

from __future__ import annotations

import collections
import dis
import functools
import gc
import itertools
import os
import sys
import sysconfig
import types
from time import thread_time
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from ._fault import from_handler

_DEPTH_MOST = 10
_LONG = 200_000  # only both ends of a longer sequence are visited
_KEYS_NAMED_MOST = 16  # a dict with more keys than this is a table, and its keys are not names
_OPTIMIZED = 0x1  # co_flags of a function: its f_locals is a copy

_ATOMS = frozenset(
    (int, float, bool, complex, str, bytes, bytearray, type(None), type(...), type(NotImplemented), range, slice)
)
_PASSED_OVER = (
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.FrameType,
    types.TracebackType,
    property,
    staticmethod,
    classmethod,
)
# Types that have named attributes and more inside, such as the cache of functools.lru_cache.
_WRITTEN_IN_C = frozenset(("builtins", "functools", "itertools", "weakref"))
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
_INSIDE = "(inside)"  # an object that is referred to without a name
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Place(NamedTuple):
    """One step on the way from a name to a tensor. ``above`` is None for the name itself."""

    above: Optional["Place"]
    label: str
    kind: str  # of the object found here
    where: Union[str, types.CodeType]  # for a name: a file, or the code that gives it a value
    depth: int
    inside: int = 0  # id() of the object that it was found in


# Read a class without running code of its metaclass.
_bases_of: Callable[[type], Tuple[type, ...]] = type.__dict__["__mro__"].__get__
_vars_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__


def _kind_of(kind: type) -> str:
    """What to call objects of this type."""
    return "class" if issubclass(kind, type) else _name_of(kind)


def attributes_of(value: Any) -> Optional[Dict[Any, Any]]:
    """Returns the ``__dict__`` that Python itself gave to an object. None if it has none, or one that the program defines."""
    for base in _bases_of(type(value)):
        found = _vars_of(base).get("__dict__")
        if found is not None:
            if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return None
            attributes = found.__get__(value)
            return attributes if type(attributes) is dict else None
    return None


@functools.lru_cache(maxsize=1024)
def _first_line(code: types.CodeType, name: str) -> int:
    """Returns the line where a function first sets this name: unlike its current line, it stays the same while it runs."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        starts = instruction.starts_line
        if sys.version_info >= (3, 13):
            line = instruction.line_number or line  # type: ignore[attr-defined,unused-ignore]
        elif starts is not None:
            line = int(starts)
        # One instruction may make two stores; its argument is then a pair of names.
        stored = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.opname.startswith("STORE_") and name in stored:
            return line
    return code.co_firstlineno


_NOT_THE_PROGRAM = ("<frozen", "<eval_with_key", sysconfig.get_path("stdlib"), _HERE)
_INSTALLED = tuple(f"{os.sep}{name}-packages{os.sep}" for name in ("site", "dist"))


_libraries: Dict[str, int] = {}  # modules that do not belong to the program: name and id


def _is_library(path: str) -> bool:
    """True if a file belongs to Python or to an installed package, not to the program."""
    return path.startswith(_NOT_THE_PROGRAM) or _INSTALLED[0] in path or _INSTALLED[1] in path


def _empty_copy(frame: types.FrameType, names: Any) -> None:
    """Empties the copy that f_locals left in a function's frame. Not under a debugger, because Python writes the copy back."""
    traced = frame.f_trace is not None or sys.gettrace() is not None or sys.getprofile() is not None
    if frame.f_code.co_flags & _OPTIMIZED and isinstance(names, dict) and not traced:
        names.clear()


def _frame_places(frame: types.FrameType) -> Iterator[Tuple[Any, Place]]:
    code = frame.f_code
    names = frame.f_locals
    for name, value in list(names.items()):
        if type(value) not in _ATOMS and not name.startswith("__"):
            yield value, Place(None, name, _kind_of(type(value)), code, 0)
    _empty_copy(frame, names)


def _frames(most: int = 400) -> Tuple[List[types.FrameType], List[types.FrameType]]:
    """Returns the frames of the program and those of libraries, for all threads, without this package's. Outermost
    first, because their names last: of two equally long ways to a tensor, the name that exists in every step is found."""
    found: List[types.FrameType] = []
    of_libraries: List[types.FrameType] = []
    at: Optional[types.FrameType] = None
    for at in sys._current_frames().values():
        while at is not None and most > 0:
            most -= 1
            path = at.f_code.co_filename
            if not path.startswith(_HERE):
                (of_libraries if _is_library(path) else found).append(at)
            at = at.f_back
    # In this thread the innermost frame is this one. Its own variable would keep it alive, with the whole census.
    del at
    return found[::-1], of_libraries[::-1]


def _own_path(name: str, names: Dict[Any, Any]) -> Optional[str]:
    """The file of a module of the program ("" without one), by its attributes; None for a module of a library."""
    path = names.get("__file__")
    path = path if type(path) is str else ""
    return path if name == "__main__" or (path and not _is_library(path)) else None


def _is_own_class(value: type) -> bool:
    """True if the program defines this class. Those of libraries are passed over: there are thousands."""
    name = _vars_of(value).get("__module__")
    module = sys.modules.get(name) if type(name) is str else None
    return module is not None and _own_path(name, attributes_of(module) or {}) is not None


def _global_places() -> Iterator[Tuple[Any, Place]]:
    # A framework has some thousands of modules. The previous census has seen nearly all of them.
    modules = dict(sys.modules)
    ids = dict(zip(modules, map(id, modules.values())))
    unknown = dict(ids.items() - _libraries.items())
    for name, identity in [each for each in ids.items() if each[0] in unknown]:
        names = attributes_of(modules[name]) or {}
        path = _own_path(name, names)
        if path is None:
            _libraries[name] = identity
            continue
        where = path or name
        for key, value in list(names.items()):
            if type(value) not in _ATOMS and type(key) is str and not key.startswith("__"):
                yield value, Place(None, key, _kind_of(type(value)), where, 0)


def _iterator_places(iterators: Iterable[Any]) -> Iterator[Tuple[Any, Place]]:
    """Loaders and their iterators: a ``for`` loop holds them on its stack, where no name leads."""
    for each in iterators:
        yield each, Place(None, "iter(loader)", _name_of(type(each)), "a for loop", 0)


def _key_label(key: Any, size: int) -> str:
    if type(key) is str and size <= _KEYS_NAMED_MOST and len(key) <= 40:
        return f"[{key!r}]"
    return "[*]"


def _of_sequence(value: Any, base: Any) -> Iterator[Tuple[Any, str]]:
    if type(value) in (list, tuple):
        value = [*value[:1000], *value[-1000:]] if len(value) > _LONG else value
    else:  # a copy at once: another thread may be changing it
        value = list(itertools.islice(base.__iter__(value), _LONG))
    if set(map(type, value)) <= _ATOMS:
        return
    for each in value:
        yield each, "[*]"


def _of_function(value: Any) -> Iterator[Tuple[Any, str]]:
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        try:
            yield cell.cell_contents, f" closing over {name}"
        except ValueError:
            continue
    for each in value.__defaults__ or ():
        yield each, " default argument"


def _of_object(value: Any) -> Iterator[Tuple[Any, str]]:
    """Yields attributes by name if there is a ``__dict__``; otherwise whatever the object refers to."""
    kind, attributes = type(value), attributes_of(value)
    if attributes is not None:
        for name, each in list(attributes.items()):
            if name not in ("_parameters", "_buffers"):
                yield each, f".{name}" if type(name) is str else "[*]"
        if _vars_of(kind).get("__module__") not in _WRITTEN_IN_C and not any("__slots__" in _vars_of(base) for base in _bases_of(kind)):
            return
    for each in gc.get_referents(value):
        if each is not attributes:
            yield each, _INSIDE


def _of_class(value: type) -> Iterator[Tuple[Any, str]]:
    for name, each in list(_vars_of(value).items()):
        if type(name) is str and not name.startswith("__") and type(each) is not types.FunctionType:
            yield each, f".{name}"


_FRAME_OF = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}


def _children(value: Any) -> Iterator[Tuple[Any, str]]:
    kind = type(value)
    if issubclass(kind, dict):
        size = dict.__len__(value)
        for key, each in itertools.islice(list(dict.items(value)), _LONG):
            yield each, _key_label(key, size)
        if kind is not dict:
            yield from _of_object(value)
    elif issubclass(kind, _SEQUENCES):
        yield from _of_sequence(value, next(base for base in _SEQUENCES if issubclass(kind, base)))
        if kind not in _SEQUENCES:
            yield from _of_object(value)
    elif kind is types.FunctionType:
        yield from _of_function(value)
    elif kind is types.MethodType:
        yield value.__self__, ".__self__"
    elif issubclass(kind, type):
        yield from _of_class(value)
    elif kind in _FRAME_OF:
        frame = getattr(value, _FRAME_OF[kind])
        if frame is not None:
            names = frame.f_locals
            for name, each in list(names.items()):
                yield each, f" local {name}"
            _empty_copy(frame, names)
    else:
        yield from _of_object(value)


class Holder(NamedTuple):
    """Who holds a tensor, in words for a person. ``str()`` gives ``list `losses` in train.py:88 train()``."""

    kind: str  # of the outermost thing that has a name
    name: str
    path: str
    line: int  # where it first gets a value; 0: unknown
    function: str  # "" outside functions
    inside: int  # id() of the object that holds the tensor directly, under any name; 0: a variable does

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        function = f" {self.function}()" if self.function else ""
        return f"{self.kind} `{self.name}` in {os.path.basename(self.path)}{line}{function}"


def holder_of(place: Place) -> Holder:
    labels: List[str] = []
    at = place
    while at.above is not None:
        if at.label != _INSIDE:
            labels.append(at.label)
        at = at.above
    labels.reverse()
    while labels and labels[-1] == "[*]":  # "list `losses`" already says that it is one of the elements
        labels.pop()
    kind = "variable" if place.above is None else at.kind
    where, name = at.where, f"{at.label}{''.join(labels)}"
    if not isinstance(where, types.CodeType):
        return Holder(kind, name, where, 0, "", place.inside)
    function = where.co_name if where.co_flags & _OPTIMIZED else ""
    return Holder(kind, name, where.co_filename, _first_line(where, at.label), function, place.inside)


class Search:
    """One search. ``find`` gives the holders of tensors by id. ``complete`` is False if its processor time did not suffice."""

    def __init__(self, tensor_types: "set[type]", seconds: float) -> None:
        self.complete = True
        self._tensor_types = tensor_types
        self._deadline = thread_time() + seconds
        self._queue: Deque[Tuple[Any, Place]] = collections.deque()
        self._seen: Set[int] = set()
        self._wanted: Optional[Set[int]] = set()  # None: all tensors are wanted
        self._reached: List[Any] = []
        self.places: Dict[int, Place] = {}  # of tensors by their id()

    def _take(self, tensor: Any, place: Place) -> None:
        if self._wanted is None:
            if id(tensor) not in self.places:
                self._reached.append(tensor)
                self.places[id(tensor)] = place
        elif id(tensor) in self._wanted:
            self.places.setdefault(id(tensor), place)

    def _is_done(self) -> bool:
        return self._wanted is not None and len(self.places) == len(self._wanted)

    def _meet(self, value: Any, place: Place) -> None:
        kind = type(value)
        if kind in _ATOMS:
            return
        if kind in self._tensor_types:
            self._take(value, place)
            return
        if place.depth >= _DEPTH_MOST or id(value) in self._seen or issubclass(kind, _PASSED_OVER):
            return
        if issubclass(kind, type) and not _is_own_class(value):
            return
        # The collector does not track dicts and tuples of plain numbers and strings.
        if not gc.is_tracked(value) and kind is not types.FunctionType:
            return
        self._seen.add(id(value))
        self._queue.append((value, place))

    def _late(self) -> bool:
        if thread_time() < self._deadline:
            return False
        self.complete = False
        return True

    def _spread(self) -> None:
        while self._queue and not self._is_done():
            value, place = self._queue.popleft()
            if self._late():
                return
            try:
                self._visit(value, place)
            except Exception as error:  # noqa: BLE001 - another thread changed it while it was read
                if from_handler(error):
                    raise
                self.complete = False

    def _visit(self, value: Any, above: Place) -> None:
        place, wanted, found, tensor_types = above, self._wanted, self.places, self._tensor_types
        if type(value) in (list, tuple) and len(value) > 64 and set(map(type, value)) <= tensor_types:
            place = Place(above, "[*]", "Tensor", "", above.depth + 1, id(value))
            here = set(map(id, value)) if wanted is None else wanted.intersection(map(id, value))
            found.update(dict.fromkeys(here - found.keys() if found else here, place))
            if wanted is None:
                self._reached.extend(value)
            return
        for count, (each, label) in enumerate(_children(value), 1):
            if count % 256 == 0 and self._late():
                return
            kind = type(each)
            if kind in _ATOMS:
                continue
            if place is above or place.label != label:  # the elements of a list share one place
                place = Place(above, label, _kind_of(kind), "", above.depth + 1, id(value))
            if kind in tensor_types:
                self._take(each, place)
            else:
                self._meet(each, place if place.kind == _kind_of(kind) else place._replace(kind=_kind_of(kind)))

    def _follow(self, places: Iterable[Tuple[Any, Place]]) -> None:
        if self._is_done():
            return
        for value, place in places:
            self._meet(value, place)
        self._spread()

    def find(self, wanted: Set[int], iterators: Iterable[Any] = ()) -> Dict[int, Place]:
        """Returns the places of the tensors with these ids. ``iterators``: where to search if names lead to too few."""
        self._wanted = wanted
        if not wanted:
            return self.places
        self._search(iterators)
        return self.places

    def reach(self) -> List[Any]:
        """Returns every tensor that a name of the program leads to, each once."""
        self._wanted = None
        self._search(())
        reached, self._reached = self._reached, []
        return list({id(tensor): tensor for tensor in reached}.values())

    def _search(self, iterators: Iterable[Any]) -> None:
        self._seen.update(map(id, (self, self._queue, self._seen, self.places, self._wanted, self._reached)))
        own, of_libraries = _frames()
        self._follow(itertools.chain(*map(_frame_places, own), _global_places()))
        self._follow(_iterator_places(iterators))
        if self._wanted is not None:
            self._follow(itertools.chain(*map(_frame_places, of_libraries)))
        self._queue.clear()
