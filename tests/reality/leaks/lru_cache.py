"""functools.lru_cache without a bound, on arguments that never come again."""

import functools

import numpy
from pace import steps


@functools.lru_cache(maxsize=None)
def features(key):
    return numpy.random.default_rng(key).standard_normal(24_000)  # LEAK: 192,000 bytes


for step in steps():
    features(step)
