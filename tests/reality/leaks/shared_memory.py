"""Shared memory that is closed when its batch is done with, and never unlinked."""

import time
from multiprocessing import shared_memory

from pace import steps

for step in steps(pace=0.05):
    batch = shared_memory.SharedMemory(create=True, size=262_144)
    batch.buf[:] = bytes(262_144)  # 256 KiB
    time.sleep(0.05)  # work on it
    batch.close()
