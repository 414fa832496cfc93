"""What a program of tests/reality is: how it is started, and what is true of it.

A command is words, or text for `sh -c`. In words and text {python} is the Python with the packages of tools/reality-venv, {drivers}
the folder of that name here, {work} a new folder of this run's own (also the working directory), {seconds} how long the
program shall go on, and {port} a number that no other run has. What ends by itself does so after about {seconds}; what does
not is sent SIGTERM then.
"""

from __future__ import annotations

import dataclasses
import typing

STEP, SECOND = "step", "second"


class Rate(typing.NamedTuple):
    """What a leak loses, by what its code says."""

    bytes: float
    per: str  # STEP or SECOND


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: typing.Union[str, tuple[str, ...]]
    leaks: bool = False
    seconds: int = 30
    needs: tuple[str, ...] = ()  # Debian packages
    pip: tuple[str, ...] = ()  # PyPI packages
    prepare: str = ""  # text for `sh -c`, run in {work} before the program and outside of its tree
    load: str = ""  # the same, beside it: what a server is asked; the run ends when this does
    mechanism: str = ""  # of a leak: why memory is lost, in a few words
    rate: typing.Optional[Rate] = None  # None: the sampler's own slope is the truth
    line: str = ""  # what the first culprit must show of a --heap run: "file.py:31", or a function, or several with " or "; empty: not asked
    heap: bool = True  # whether a run with --heap makes sense
    options: tuple[str, ...] = ()  # of `tidemark run`, such as --step-regex
    environment: tuple[tuple[str, str], ...] = ()
    threads: int = 1  # OMP_NUM_THREADS and its like
