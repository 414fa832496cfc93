"""Shared memory that is closed and never unlinked."""

import os
from multiprocessing import resource_tracker, shared_memory

from pace import steps

names = []
for step in steps():
    segment = shared_memory.SharedMemory(create=True, size=262_144)
    segment.buf[:] = bytes(262_144)  # LEAK: 256 KiB
    names.append(segment.name)
    segment.close()
