"""The workers of a pool keep what they computed in a table of their module."""

import multiprocessing

from pace import steps

RESULTS = {}


def work(job):
    RESULTS[job] = bytes([job % 255 + 1]) * 131_072  # LEAK: 128 KiB
    return len(RESULTS[job])


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        for step in steps():
            pool.map(work, range(4 * step, 4 * step + 4), chunksize=2)
