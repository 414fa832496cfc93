"""multiprocessing: a pool whose workers are replaced after some tasks (second argument; 0: never)."""

import multiprocessing
import sys

import pace


def task(n):
    return len(sorted({str(i * i % 7919): [i] * 5 for i in range(n)}))


if __name__ == "__main__":
    with multiprocessing.Pool(3, maxtasksperchild=int(sys.argv[2]) or None) as pool:
        for step in pace.steps():
            pool.map(task, [2000 + 100 * (step % 9)] * 24, chunksize=2)
