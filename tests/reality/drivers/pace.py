"""How drivers in Python count: until the seconds of the first argument are over, with a line for each step."""

import sys
import time


def steps(seconds=None):
    end = time.monotonic() + float(seconds if seconds is not None else sys.argv[1])
    step = 0
    while time.monotonic() < end:
        step += 1
        yield step
        print("step", step, flush=True)
