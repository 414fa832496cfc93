"""Numba: a compiled function over arrays."""

import numba
import numpy
import pace


@numba.njit
def smooth(a, out):
    for i in range(1, a.size - 1):
        out[i] = (a[i - 1] + a[i] + a[i + 1]) / 3


for step in pace.steps():
    a = numpy.random.random(1_000_000 + step % 7)
    out = numpy.empty_like(a)
    for _ in range(10):
        smooth(a, out)
