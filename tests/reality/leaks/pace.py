"""Steps at an even pace, each printed as training loops print theirs, until the program has run for as long as it was told."""

import sys
import time


def steps(seconds=None, pace=0.1):
    end = time.monotonic() + (float(sys.argv[1]) if seconds is None else seconds)
    step = 0
    while time.monotonic() < end:
        print(f"step {step}", flush=True)
        yield step
        step += 1
        time.sleep(pace)
