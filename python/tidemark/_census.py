"""The tensor census: what is alive, how large, and who holds it; and what grew between two of them.

The collector knows the tensors, modules and optimizers (_roster.py). Every storage is counted once, for the first of
its tensors in this order: what a module or an optimizer owns, what the program holds (tensors before their views), what
an autograd graph keeps, the rest. A census keeps numbers and words, never a tensor.

The time has three parts: about 2 us per tensor, the search for holders (_holders.py) and the walk over autograd graphs
(_graphs.py). The last two are bounded; if a bound cuts something off, ``complete`` is False. Before the first census,
``prepare()`` visits all Python objects once: 0.2 us each.

No code of the program runs in a census, neither that of its classes nor that of its tensor subclasses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import itertools
from time import perf_counter
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch
import torch.utils.data

from . import _graphs, _growth, _holders, _owners, _storage
from ._fault import from_handler
from ._loader import Watched
from ._roster import Roster, subclasses_of
from ._units import size_text

_ITERATORS = (Watched, *filter(None, [getattr(torch.utils.data.dataloader, "_BaseDataLoaderIter", None)]))
_NoPythonOfTensors: Any = getattr(getattr(torch, "_C"), "DisableTorchFunction", contextlib.nullcontext)

roster = Roster((torch.Tensor, torch.nn.Module, torch.optim.Optimizer, *_ITERATORS))
_GRAPH_OF = "autograd graph of "
_UNKNOWN: _owners.Owner = (_owners.UNKNOWN, "nothing that was found")


class Key(NamedTuple):
    """What tensors are grouped by. ``holder`` is words for a person."""

    shape: Tuple[int, ...]
    dtype: Any
    device: Any
    requires_grad: bool
    kind: str  # parameter, buffer, gradient, optimizer state, autograd graph, held or unknown
    holder: str


@dataclasses.dataclass
class Group:
    """Tensors with one key. ``bytes`` counts storages that are not counted for another tensor; ``shared`` tensors add none."""

    count: int = 0
    bytes: int = 0
    shared: int = 0


@dataclasses.dataclass
class Census:
    """What was alive at one moment. Bytes by kind are in ``by_kind``."""

    step: Optional[int]
    groups: Dict[Key, Group]
    graphs: int  # autograd graphs that still hold what a backward needs
    passes: int  # forward passes in them
    complete: bool
    seconds: float
    holders_complete: bool = True  # although perhaps not every graph was visited
    places: Dict[str, _holders.Holder] = dataclasses.field(default_factory=dict)  # holders by the words of a key
    nodes: Dict[str, int] = dataclasses.field(default_factory=dict)  # of graphs, by the same words, if a few stand for all

    @property
    def tensors(self) -> int:
        return sum(group.count for group in self.groups.values())

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups.values())

    @property
    def by_kind(self) -> Dict[str, int]:
        total: Dict[str, int] = {}
        for key, group in self.groups.items():
            total[key.kind] = total.get(key.kind, 0) + group.bytes
        return total

    def largest(self, most: int = 10) -> List[Tuple[Key, Group]]:
        """The largest groups by bytes; equal ones in the order of their words, so that two censuses agree."""
        return sorted(self.groups.items(), key=lambda each: (-each[1].bytes, each[0].holder, each[0].shape))[:most]

    def since(self, before: "Census", least_bytes: int = 1) -> List[_growth.Growth]:
        """What grew since an earlier census, the most bytes first."""
        return _growth.between(before, self, least_bytes)

    def rows(self, most: int) -> List[str]:
        """The largest groups as lines of text, and one for the rest."""
        lines = []
        for key, group in self.largest(most):
            views = ", views of larger storages" if _growth.slices(key.shape, key.dtype, group.count, group.bytes) else ""
            what = f"{_growth.tensor_words(key)}{views}, {holder_words(key)}"
            lines.append(f"{group.count:>7}  {size_text(group.bytes):>10}  {what}")
        left = len(self.groups) - most
        if left > 0:
            rest = self.bytes - sum(group.bytes for _, group in self.largest(most))
            lines.append(f"{'':>7}  {size_text(rest):>10}  in {left} more groups")
        if not self.complete:
            lines.append("(cut short: not every holder or graph was looked at)")
        return lines

    def table(self, most: int = 10) -> str:
        """The same with a header and the sum."""
        total = f"{self.tensors:>7}  {size_text(self.bytes):>10}  in all; {self.graphs} autograd graphs alive"
        return "\n".join([f"{'count':>7}  {'bytes':>10}  tensor", *self.rows(most), total])

    def __str__(self) -> str:
        return self.table()


def holder_words(key: Key) -> str:
    return key.holder if key.kind in _OWNED else f"held by {key.holder}"


_OWNED = (_owners.PARAMETER, _owners.BUFFER, _owners.GRADIENT, _owners.STATE)


class _Count:
    """The work of one census. It lives only during the census, because it holds tensors."""

    def __init__(self, step: Optional[int], seconds: float) -> None:
        self.began = perf_counter()
        self.step = step
        self.seconds = seconds
        self.groups: Dict[Tuple[Any, Any, Any, bool, _owners.Owner], List[int]] = {}  # count, bytes, shared
        self.claimed: Set[int] = set()
        self.tensors: List[Any] = []
        self.iterators: List[Any] = []
        self.owners: Dict[int, _owners.Owner] = {}
        self.places: Dict[str, _holders.Holder] = {}
        self.nodes: Dict[str, int] = {}
        self.complete = self.holders_complete = True

    def gather(self) -> None:
        tensor_types = self.tensor_types = subclasses_of(torch.Tensor)
        found = roster.look()
        self.tensors = [each for each in found if type(each) in tensor_types]
        others = [each for each in found if type(each) not in tensor_types]
        self.iterators = [each for each in others if issubclass(type(each), _ITERATORS)]
        modules = (each for each in others if issubclass(type(each), torch.nn.Module))
        optimizers = (each for each in others if issubclass(type(each), torch.optim.Optimizer))
        self.owners = _owners.claim(modules, optimizers)
        self._gather_gradients()

    def _gather_gradients(self) -> None:
        known = set(map(id, self.tensors))
        for tensor in [each for each in self.tensors if each.requires_grad]:
            if tensor.is_leaf:
                gradient = tensor.grad
                if gradient is not None:
                    owner = self.owners.get(id(tensor))
                    of = "a parameter" if owner and owner[0] == _owners.PARAMETER else "a leaf tensor"
                    self.owners[id(gradient)] = (_owners.GRADIENT, f"gradient of {of}")
                    if id(gradient) not in known:
                        self.tensors.append(gradient)

    def find_holders(self) -> None:
        wanted = set(map(id, self.tensors)) - self.owners.keys()
        search = _holders.Search(self.tensor_types, self.seconds * 0.4)
        self._name(search.find(wanted, self.iterators), search.complete)

    def reach(self) -> None:
        """Instead of gather() and find_holders(): takes only the tensors that names of the program lead to."""
        self.tensor_types = subclasses_of(torch.Tensor)
        search = _holders.Search(self.tensor_types, self.seconds * 0.4)
        self.tensors = search.reach()
        self._name(search.places, search.complete)

    def _name(self, places: Dict[int, _holders.Place], complete: bool) -> None:
        self.complete = self.holders_complete = complete
        distinct = dict(zip(map(id, places.values()), places.values()))
        holders = {key: _holders.holder_of(place) for key, place in distinct.items()}
        words = {key: (_owners.HELD, str(holder)) for key, holder in holders.items()}
        self.places = {words[key][1]: holder for key, holder in holders.items()}
        self.owners.update(zip(places, map(words.__getitem__, map(id, places.values()))))

    def _add(self, tensors: Iterable[Any], owner: Optional[_owners.Owner] = None, only_fresh: bool = False) -> None:
        """Counts tensors for one owner, or each for its own. ``only_fresh``: only those whose storage is not counted yet."""
        claimed, groups, owners, storage_of = self.claimed, self.groups, self.owners, _storage.storage_of
        for tensor in tensors:
            # This loop decides what a census costs, so a plain tensor is asked only for what is needed.
            try:
                storage = storage_of(tensor)
                identity = storage._cdata
                alone = identity not in claimed
                fresh = storage.nbytes() if alone else 0
                claimed.add(identity)
            except Exception as error:  # noqa: BLE001 - no plain tensor
                if from_handler(error):
                    raise
                pieces = [piece for piece in _storage.pieces_of(tensor) if piece[0] not in claimed]
                claimed.update(piece[0] for piece in pieces)
                alone, fresh = bool(pieces), sum(piece[1] for piece in pieces)
            if only_fresh and not alone:
                continue
            whose = owner or owners[id(tensor)]
            key = (tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad, whose)
            group = groups.get(key)
            if group is None:
                groups[key] = [1, fresh, not alone]
            else:
                group[0] += 1
                group[1] += fresh
                group[2] += not alone

    def _keep(self, tensor: Any, root: int) -> None:
        """A tensor saved by the graph of a root is held by the holder of that root."""
        self._add((tensor,), self.root_owners[root], only_fresh=True)

    def _graph_owner(self, tensor: Any) -> _owners.Owner:
        owner = self.owners.get(id(tensor))
        return _owners.GRAPH, f"{_GRAPH_OF}{owner[1]}" if owner else "an autograd graph"

    def _choose(self, roots: List[Any], most: Optional[int]) -> Tuple[List[Any], Dict[_owners.Owner, float]]:
        """Returns at most ``most`` roots of each owner, and how many roots each of them stands for."""
        chosen = []
        all_of: Dict[_owners.Owner, int] = {}
        taken: Dict[_owners.Owner, int] = {}
        for tensor in roots:
            owner = self._graph_owner(tensor)
            all_of[owner] = all_of.get(owner, 0) + 1
            if most is None or taken.get(owner, 0) < most:
                taken[owner] = taken.get(owner, 0) + 1
                chosen.append(tensor)
        return chosen, {owner: all_of[owner] / count for owner, count in taken.items() if count < all_of[owner]}

    def _scale(self, stands_for: Dict[_owners.Owner, float], nodes: List[int]) -> None:
        """Scales up what was counted: the visited roots stand for the others of their owner."""
        for key, numbers in self.groups.items():
            self.groups[key] = [round(number * stands_for.get(key[4], 1)) for number in numbers]
        for owner, count in zip(self.root_owners, nodes):
            if owner[1].startswith(_GRAPH_OF):
                words = owner[1][len(_GRAPH_OF) :]
                self.nodes[words] = self.nodes.get(words, 0) + round(count * stands_for.get(owner, 1))

    def count(self, most: Optional[int] = None) -> _graphs.Graphs:
        """``most``: how many graphs of one owner are visited and stand for the others; None: all are visited."""
        owners = self.owners
        owned, held, views, unknown = [], [], [], []
        for tensor, owner in zip(self.tensors, map(owners.get, map(id, self.tensors))):
            if owner is None:
                unknown.append(tensor)
            elif owner[0] in _OWNED:
                owned.append(tensor)
            elif tensor._base is None:
                held.append(tensor)
            else:
                views.append(tensor)
        held += views
        self._add(owned)
        self._add(held)
        # Newest first: a loss is newer than what it was computed from, so its whole graph is counted as its own.
        roots = [tensor for tensor in itertools.chain(reversed(held), reversed(unknown)) if tensor.grad_fn is not None]
        roots, stands_for = self._choose(roots, most)
        self.root_owners = [self._graph_owner(tensor) for tensor in roots]
        starts = [tensor.grad_fn for tensor in roots]
        # Tensors that hooks have packed must not be unpacked, because that runs code.
        readable = starts if most is None or _graphs.TELLS_HOOKS else []
        graphs = _graphs.walk_roots(readable, self.seconds * 0.4, self._keep)
        if most is not None:
            self._scale(stands_for, _graphs.nodes_behind(starts, self.seconds * 0.1))
        self.complete &= graphs.complete
        # Tensors of graphs and bases of views become Python objects when they are read. By now they are counted.
        self._add(unknown, _UNKNOWN, only_fresh=True)
        return graphs

    def result(self, graphs: _graphs.Graphs) -> Census:
        groups = {Key(tuple(k[0]), k[1], k[2], k[3], *k[4]): Group(*numbers) for k, numbers in self.groups.items()}
        return Census(
            self.step,
            groups,
            graphs.roots,
            graphs.passes,
            self.complete,
            perf_counter() - self.began,
            self.holders_complete,
            self.places,
            self.nodes,
        )


def census(step: Optional[int] = None, seconds: float = 1.0) -> Census:
    """Counts the tensors that are alive in this process.

    Best called at the end of a step: between forward and backward it counts everything the step needs. The search for
    holders and the walk over graphs take at most 80 % of ``seconds``; a program of ordinary size needs less.
    """
    prepare()
    with _counting(step, seconds) as work:
        work.gather()
        work.find_holders()
        return work.result(work.count())


def reach(seconds: float, graphs_most: int) -> Census:
    """Counts the tensors that names of the program lead to, and what they keep: enough to say who holds what.

    At most ``graphs_most`` graphs of one holder are visited; they stand for the others. Nothing is left behind. Tensors
    that hooks have packed are not unpacked, whatever the version of torch.
    """
    with _counting(None, seconds) as work:
        work.reach()
        return work.result(work.count(graphs_most))


@contextlib.contextmanager
def _counting(step: Optional[int], seconds: float) -> Iterator[_Count]:
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle would cost more than the census
    try:
        with _NoPythonOfTensors():
            yield _Count(step, seconds)
    finally:
        if collecting:
            gc.enable()


def _forget_before_swaps() -> None:
    """``torch.utils.swap_tensors`` refuses tensors with weak references, and the roster keeps such references."""
    swap = getattr(torch.utils, "swap_tensors", None)
    if swap is None:
        return

    @functools.wraps(swap)
    def swap_tensors(*args: Any, **kwargs: Any) -> Any:
        roster.forget()
        return swap(*args, **kwargs)

    setattr(torch.utils, "swap_tensors", swap_tensors)


@functools.lru_cache(maxsize=None)
def prepare() -> None:
    """Does what the first census would otherwise have to do first."""
    _forget_before_swaps()
    roster.prepare()
