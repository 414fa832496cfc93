"""Memory from a C library by ctypes, for which nobody calls free()."""

import ctypes

from pace import steps

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


def encode():
    buffer = libc.malloc(200_000)  # LEAK: 200,000 bytes
    ctypes.memset(buffer, 1, 200_000)


for step in steps():
    encode()
