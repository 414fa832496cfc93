"""Shared memory that is closed and never unlinked."""

from multiprocessing import shared_memory

from pace import steps

for step in steps():
    segment = shared_memory.SharedMemory(create=True, size=262_144)
    segment.buf[:] = bytes(262_144)  # 256 KiB
    segment.close()
