"""Finds every object of some classes that the collector knows, without visiting all its objects each time.

A program that has imported torch and transformers has half a million objects; a census wants ten thousand of them.
``prepare`` visits all objects once and keeps weak references to those it wants. A ``look`` reads these references and
visits the two young generations. Objects that move to the oldest generation are noted as they move: the collector calls
back before every collection, and only a collection of generation 1 or 2 moves anything there.

Reference counts show whether an object was missed, because each object has a reference to its class. If the counts of
the classes changed by another number than the known objects did, there are two explanations. Modules imported since may
refer to the classes (``from torch import Tensor``). Then the counts say nothing, and all objects are visited again at
the next full collection, which visits everything anyway. Otherwise objects moved unseen (``gc.freeze()``, a thread that
made one while the collector began), and all objects are visited at once. That is also done after ``gc.unfreeze()``, and
always where generations are not those of CPython 3.9 to 3.13.

Threads: a look may overlap with a collection in another thread. Objects only grow older, and a look reads the young
ones before the references. So it may meet an object twice, which it notices.
"""

from __future__ import annotations

import gc
import itertools
import sys
import sysconfig
import weakref
from time import perf_counter, thread_time
from typing import Any, Dict, Iterable, List, Optional

_GENERATIONS_KNOWN = (
    sys.implementation.name == "cpython"
    and sys.version_info < (3, 14)
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
_IDLE_S = 900.0  # without a look for this long, objects are no longer noted
_alone = False
_SLACK = 20_000  # references beyond twice those last alive before dead ones are dropped


def subclasses_of(*bases: type) -> "set[type]":
    """The classes and everything derived from them."""
    found: "set[type]" = set(bases)
    left: List[type] = list(bases)
    while left:
        children: List[type] = type.__subclasses__(left.pop())
        for child in children:
            if child not in found:
                found.add(child)
                left.append(child)
    return found


def collect_alone() -> None:
    """A full collection that no roster uses to visit all objects, because its time is being measured."""
    global _alone
    _alone = True
    try:
        gc.collect()
    finally:
        _alone = False


def _references(classes: "set[type]") -> int:
    return sum(map(sys.getrefcount, classes))


def _among(objects: List[Any], classes: "set[type]") -> List[Any]:
    """Returns the objects of these classes. Empties the list: the frame that holds it may be in it and keep all of it alive."""
    found = list(itertools.compress(objects, map(classes.__contains__, map(type, objects))))
    objects.clear()
    return found


def _up_to(generation: int, classes: "set[type]") -> List[Any]:
    """Returns objects of a generation and the younger ones, oldest first. The youngest is read first: see Threads."""
    read = [gc.get_objects(each) for each in range(generation + 1)]
    return list(itertools.chain.from_iterable([_among(each, classes) for each in reversed(read)]))


class Roster:
    """The objects of these classes and of those derived from them.

    The classes must be made by a ``class`` statement, or die as carefully. A generator, for example, clears its weak
    references before its last code runs; a collection during that code would leave a reference here to a dead object.
    """

    def __init__(self, bases: Iterable[type]) -> None:
        self.whole = 0  # how often all objects were visited
        self.cost_s = 0.0  # processor time of noting objects that grow old
        self.whole_s = 0.0  # and of visiting all objects in full collections
        self._bases = tuple(bases)
        self._remembered: List[Any] = []  # weak references; one object may have several
        self._most = _SLACK
        self._others: Optional[int] = None  # references to the classes from elsewhere than their objects; None: unknown
        self._modules = 0  # imported when the references were counted
        self._doubtful = False  # modules were imported since all objects were visited
        self._frozen = 0
        self._used = 0.0

    def prepare(self) -> None:
        """Visits all objects now, unless that was done, so that the next look need not."""
        if self._others is None and _GENERATIONS_KNOWN:
            self.look()

    def look(self) -> List[Any]:
        """Returns all live objects, each once, old ones before young ones."""
        self._used = perf_counter()
        frozen = gc.get_freeze_count()
        if self._frozen and not frozen:
            self._others = None
        self._frozen = frozen
        classes, modules = subclasses_of(*self._bases), len(sys.modules)
        if self._others is not None:
            references = _references(classes)
            found = self._with_remembered(_up_to(1, classes))
            others = references - len(found)
            if others == self._others:
                return found
            if modules != self._modules:
                self._others, self._modules, self._doubtful = others, modules, True
                return found
        return self._look_at_all(classes)

    def _look_at_all(self, classes: "set[type]") -> List[Any]:
        self.whole += 1
        if not _GENERATIONS_KNOWN:
            return _among(gc.get_objects(), classes)
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)
        self._modules, self._doubtful = len(sys.modules), False
        references = self._others = _references(classes)  # from here on, objects that grow old are noted
        read = _up_to(2, classes)
        self._remember(read)
        found = self._with_remembered(read)
        self._others = references - len(found) if references == _references(classes) else None
        return found

    def _with_remembered(self, found: List[Any]) -> List[Any]:
        known = [each for each in [reference() for reference in self._drop_dead()] if each is not None]
        ids = set(map(id, known))
        return known + [each for each in found if id(each) not in ids]

    def forget(self) -> None:
        """Drops every reference; the next look visits all objects."""
        self._others = None
        self._remembered.clear()

    def _remember(self, found: List[Any]) -> None:
        self._remembered.extend(map(weakref.ref, found))
        if len(self._remembered) > self._most:
            self._drop_dead()

    def _drop_dead(self) -> List[Any]:
        """Returns the references that are left. What a collection in another thread adds meanwhile stays."""
        before = self._remembered[:]
        distinct = dict(zip(map(id, before), before)).values()  # an object has one such reference, however often it is made
        self._remembered[: len(before)] = [each for each in distinct if each() is not None]
        self._most = 2 * len(self._remembered) + _SLACK
        return self._remembered[:]

    def _on_collection(self, phase: str, info: Dict[str, Any]) -> None:
        """The collector's callback. Python would print an exception from here at each collection."""
        if phase != "start" or info["generation"] == 0 or self._others is None:
            return
        try:
            if perf_counter() > self._used + _IDLE_S:
                self.forget()
                return
            classes, used = subclasses_of(*self._bases), thread_time()
            if self._doubtful and info["generation"] == 2 and not _alone:
                self._look_at_all(classes)
                self.whole_s += thread_time() - used
            else:
                self._remember(_up_to(1, classes))
                self.cost_s += thread_time() - used
        except Exception:  # noqa: BLE001 - for example at the end of the interpreter, with modules half gone
            self._others = None
