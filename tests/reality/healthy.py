"""Programs that do not leak, from Debian and PyPI, under load."""

from __future__ import annotations

from program import Program

PROGRAMS = [
    Program("sort", "seq 1 4000000 | shuf > numbers; for turn in 1 2 3 4; do sort -S 200M numbers > sorted; done", seconds=20, needs=("coreutils",)),
]
