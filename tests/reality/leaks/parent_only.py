"""Workers are clean; the parent keeps every result that they send."""

import multiprocessing
import os

from pace import steps


def work(job):
    return os.urandom(262_144)


if __name__ == "__main__":
    results = []
    with multiprocessing.Pool(4) as pool:
        for step in steps():
            results.append(pool.apply(work, (step,)))  # LEAK: 256 KiB
