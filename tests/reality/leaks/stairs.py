"""The results of an epoch are kept: a stair every ten steps."""

import numpy
from pace import steps

kept = []
for step in steps():
    if step % 10 == 9:
        kept.append(numpy.ones(10 << 15))  # LEAK: 2.5 MiB in ten steps
