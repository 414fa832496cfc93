"""The verdict on a run, from the same judge as the command line's: the program ``tidemark judge``.

Under ``tidemark run`` the recording in progress is judged: the whole tree, seen from outside. Otherwise the samples
that this package took itself are judged, as a plain series in a temporary file. Without the program there is no
verdict, only the numbers.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._binary import find

_SECONDS_MOST = 30
_UNIT = " (bytes)"

_GROWING = ("leak", "jump", "plateau")
GROWN = ("leak", "jump", "retention")  # verdicts after which what grew is listed

Table = Tuple[List[str], List[Sequence[Optional[float]]]]  # names of columns, the first a step; rows


class Verdict(NamedTuple):
    verdict: str  # flat, spikes, leak, plateau, jump, retention or undecided
    sentence: str
    name: str  # of what is judged
    document: Dict[str, Any]  # the judge's own answer, schema tidemark.verdict/1

    def _columns(self) -> Dict[str, Dict[str, Any]]:
        return {str(each["name"]).replace(_UNIT, ""): each for each in self.document.get("series") or ()}

    def sentences(self) -> List[str]:
        """The sentences for a person. For a recording: its verdict. For samples: the verdict on the process, then
        devices that grow, and a note if the process and the bytes that malloc has in use behave differently."""
        columns = self._columns()
        process = columns.get("process")
        if process is None:
            return [self.sentence, *_hidden_leak(self.verdict, columns.get('gauge "cpu heap in use"'))]
        found = [_plain(process["sentence"])]
        for name, each in columns.items():
            if name.startswith(("cuda", "mps")) and each["verdict"] in _GROWING:
                found.append(_plain(each["sentence"]))
        inside = columns.get("cpu heap in use")
        if process["verdict"] == "leak" and inside is not None and inside["verdict"] in ("flat", "spikes"):
            found.append("malloc's bytes in use are flat: the growth is free memory that malloc retains, or memory outside malloc")
        return found + _hidden_leak(process["verdict"], inside)


def _hidden_leak(verdict: str, heap: Optional[Dict[str, Any]]) -> List[str]:
    """For a process that does not grow although the bytes that malloc has in use do."""
    if verdict in ("leak", "retention") or heap is None or heap["verdict"] != "leak":
        return []
    return [_plain(heap["sentence"]) + "; it reuses memory that the process already had"]


def _plain(sentence: str) -> str:
    return sentence.replace(_UNIT, "")


def _ask(binary: str, path: str, items: Optional[int], per_step: Optional[float]) -> Optional[Verdict]:
    command = [binary, "judge", "--json"]
    if items:
        command += ["--items", str(items)]
        if per_step and per_step >= 1:
            command += ["--per-step", str(round(per_step))]
    # Without these: a hook that is preloaded into the training must not run in the judge.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "TIDEMARK_CHANNEL", "TIDEMARK_HEAP")}
    done = subprocess.run(
        [*command, "--", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_SECONDS_MOST,
        env=environment,
        check=False,
    )
    if done.returncode not in (0, 1, 3) or not done.stdout.strip():
        return None
    answer = json.loads(done.stdout)
    return Verdict(str(answer["verdict"]), _plain(answer["sentence"]), str(answer["name"]).replace(_UNIT, ""), answer)


def available() -> bool:
    """True if the program is installed."""
    return find() is not None


def of_recording(items: Optional[int] = None, per_step: Optional[float] = None) -> Optional[Verdict]:
    """The verdict on the recording that ``tidemark run`` makes of this program; None without one, or with too little in it."""
    path, binary = os.environ.get("TIDEMARK_RECORDING"), find()
    if not path or binary is None or not os.path.exists(path):
        return None
    return _ask(binary, path, items, per_step)


def of_table(table: Table, items: Optional[int] = None, per_step: Optional[float] = None) -> Optional[Verdict]:
    """The verdict on samples: that of the worst column."""
    binary = find()
    names, rows = table
    if binary is None or len(names) < 2 or len(rows) < 2:
        return None
    with tempfile.NamedTemporaryFile("w", prefix="tidemark-", suffix=".csv", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([names[0], *(name + _UNIT for name in names[1:])])
        writer.writerows(rows)
        file.flush()
        return _ask(binary, file.name, items, per_step)
