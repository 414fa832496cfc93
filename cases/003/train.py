"""The program of case 002 with another set of photographs, and with the cleanup that its authors prescribed against it.

    launch.py train.py [--items N] [--per-step K] [--steps S] [--fix none|cleanup|per-use] [--plain]

Truth: the same plateau, whose knee moves with the data: N / K steps. --fix cleanup runs gc, zero_grad(set_to_none) and malloc_trim
every tenth step (tidemark.Cleanup, which measures them) and prints what they freed: the plateau stays. --fix per-use is the repair.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "002"))

import vision  # noqa: E402

if __name__ == "__main__":
    vision.main(items=180)
