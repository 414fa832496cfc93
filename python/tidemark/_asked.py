"""The census that ``tidemark run --heap`` takes of a program that knows nothing of it: who holds the memory that grows.

The hook (src/hook/census.h) calls ``census()`` a few times in a run, on the main thread, between two instructions of
the program. So nothing may be left behind, printed or raised, and no code of the program may run:

- Only tensors that a name of the program leads to are examined, not all objects of the interpreter (25 ms for 300,000).
  No weak reference and no callback remains.
- An error of ours is not reported and ends the census for good. Only an exception that a signal handler of the program
  raised meanwhile is passed on.
- A lane is made only when there is something to report: a holder whose tensors grew from census to census.

The report is a gauge, "held by list `losses`, train.py:31; keep `loss.item()`", with the bytes that are held. The judge
joins it with the call sites that grow (src/assess/holders.c).
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _lane
from ._fault import from_handler

HELD, HELD_ON_GPU = "held by ", "held on the GPU by "  # src/record/record.h
_SECONDS = 0.06  # for finding holders and graphs, which is nearly all of the work
_GRAPHS_MOST = 16  # graphs of one holder that are examined and stand for the others: a list of losses has thousands
_SAID_MOST = 3
_KEPT_MOST = 64
_LEAST_BYTES = 64 << 10
_LEAST_SHARE = 0.1  # of the largest growth
_CENSUSES_MOST = 8
_SOURCE_MOST = 1 << 20  # bytes of a file that is searched for the line that fills a list
_LINE_MOST = 1000
_GRAPH_OF = "autograd graph of "
_NODE_BYTES = 600  # of one graph node whose tensors a backward has freed: measured with Linear layers


class _Sum(NamedTuple):
    """What one holder holds on the host, or on GPUs."""

    bytes: int
    graph: int  # of these, the bytes that autograd graphs keep or need
    scalars: bool  # it directly holds only single numbers


_Sums = Dict[Tuple[str, bool], _Sum]  # by the holder's words and whether the memory is on a GPU
_before: List[_Sums] = []
_names: Dict[Tuple[str, bool], str] = {}  # of gauges: a holder keeps the name it was first reported under
_first_words: Dict[int, str] = {}  # by id of the object that holds tensors directly: the words it was first found under
_places: Dict[str, Any] = {}  # by these words
_over = False
_modules = 0  # loaded at the last try
_tries_left = 240  # half a second apart


def _is_starting() -> bool:
    """True while the program is still importing: growth is of no interest then."""
    global _modules, _tries_left
    before, _modules = _modules, len(sys.modules)
    _tries_left -= 1
    return not _before and _modules != before and _tries_left > 0


def _first_name(words: str, place: Any) -> str:
    """Returns the words under which this holder was first found. Later another name may be the shortest way to it."""
    return _first_words.setdefault(place.inside, words) if place is not None and place.inside else words


def _sums(seen: Any) -> _Sums:
    sums: _Sums = {}
    names = {words: _first_name(words, place) for words, place in seen.places.items()}
    for key, group in seen.groups.items():
        words, graph = key.holder, key.kind == "autograd graph"
        words = words[len(_GRAPH_OF) :] if graph and words.startswith(_GRAPH_OF) else words
        if key.kind == "unknown" or (graph and words == key.holder):
            continue
        at = names.get(words, words), key.device.type != "cpu"
        old = sums.get(at, _Sum(0, 0, True))
        needs = graph or (key.kind == "held" and key.requires_grad)
        scalars = old.scalars and (graph or key.shape == ())
        sums[at] = _Sum(old.bytes + group.bytes, old.graph + (group.bytes if needs else 0), scalars)
    for words, nodes in seen.nodes.items():
        at = names.get(words, words), False
        if at in sums:
            size = _NODE_BYTES * nodes
            sums[at] = sums[at]._replace(bytes=sums[at].bytes + size, graph=sums[at].graph + size)
    return dict(sorted(sums.items(), key=lambda each: -each[1].bytes)[:_KEPT_MOST])


def _growing(sums: _Sums) -> List[Tuple[str, bool]]:
    """Returns the holders that never shrank and grew for at least the second time, the largest growth first."""
    grown = {}
    for at, now in sums.items():
        sizes = [each[at].bytes if at in each else 0 for each in _before] + [now.bytes]
        changes = [after - before for before, after in zip(sizes, sizes[1:])]
        rises = sum(change > 0 for change in changes)
        if min(changes) >= 0 and changes[-1] > 0 and rises >= 2 and sizes[-1] - sizes[0] >= _LEAST_BYTES:
            grown[at] = sizes[-1] - sizes[0]
    most = max(grown.values(), default=0)
    found = sorted((at for at in grown if grown[at] >= _LEAST_SHARE * most), key=lambda at: -grown[at])
    return found[:_SAID_MOST]


# ---- words


_FILLS = r"(?:\.(?:append|appendleft|add|put|extend)\((?P<a>.*)\)|\[[^\]]*\]\s*=(?!=)\s*(?P<b>.*)|\s*\+=\s*(?P<c>.*))\s*(?:#.*)?$"


def _filled(path: str, name: str, line: int) -> Tuple[int, str]:
    """Returns the line that puts something into a container, and what it puts there. Searches from the line that makes it."""
    last = re.split(r"[.\[ ]", name.split("[")[0])[-1]
    if not last.isidentifier() or not os.access(path, os.R_OK) or os.path.getsize(path) > _SOURCE_MOST:
        return line, ""
    before = r"\." if "." in name else r"(?<![\w.])"
    fills = re.compile(rf"(?:^|[\s;:(]|\w+){before}{last}{_FILLS}")
    with open(path, encoding="utf-8", errors="replace") as source:
        for number, text in enumerate(source, 1):
            wanted = len(text) <= _LINE_MOST and (number >= line or not name.isidentifier())
            found = fills.search(text) if wanted else None
            if found:
                what = next(filter(None, found.groups()), "").strip().strip("[]")
                return number, what if re.fullmatch(r"[A-Za-z_][\w.]*", what) else ""
    return line, ""


def _words(words: str, place: Any, total: _Sum) -> str:
    """Returns words like: list `losses`, train.py:31; keep `loss.item()`"""
    if place is None:
        return words
    line, what = _filled(place.path, place.name, place.line)
    where = f"{os.path.basename(place.path)}{f':{line}' if line else ''}"
    advice = ""
    if total.graph * 2 > total.bytes:
        method = "item" if total.scalars else "detach"
        advice = f"; keep `{what}.{method}()`" if what else f"; keep `.{method}()` of it"
    name = place.name if len(place.name) <= 32 else f"{place.name[:15]}..{place.name[-15:]}"
    return f"{place.kind} `{name}`, {where}{advice}"


def _forget(kept: "set[str]") -> None:
    """Forgets holders that no longer hold anything."""
    for words in _places.keys() - kept:
        del _places[words]
    for inside in [each for each, words in _first_words.items() if words not in kept]:
        del _first_words[inside]


# ---- the question


def _count() -> Optional[str]:
    from . import _census

    seen = _census.reach(_SECONDS, _GRAPHS_MOST)
    if not seen.holders_complete:
        return None
    for words, place in seen.places.items():
        _places.setdefault(words, place)
    sums = _sums(seen)
    if not sums and not _before and _tries_left > 0:
        return "later"
    for at in _growing(sums) if _before else ():
        if at not in _names:
            _names[at] = (HELD_ON_GPU if at[1] else HELD) + _words(at[0], _places.get(at[0]), sums[at])
        _lane.gauge(_names[at], sums[at].bytes)
    _forget({words for words, _ in sums})
    _before.append(sums)
    if len(_before) > _CENSUSES_MOST:
        del _before[len(_before) // 2]
    return None


def census() -> Optional[str]:
    """None: counted. "later": not now. "never": not possible in this program."""
    global _over
    if not _over and _is_starting():
        return "later"
    if _over or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "never"
    try:
        return _count()
    except Exception as error:  # noqa: BLE001 - see above
        if from_handler(error):
            raise
        _over = True
        return "never"
