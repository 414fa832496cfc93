"""A forked worker reads a list of its parent: counting references copies the pages it looks at."""

import os

from pace import steps

SAMPLES = [f"sample {i:08d} " + "x" * 200 for i in range(300_000)]
if os.fork() == 0:
    at = 0
    for step in steps():
        for sample in SAMPLES[at : at + 400]:
            at += 1
    os._exit(0)
os.wait()
