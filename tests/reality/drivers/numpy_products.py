"""NumPy: products of matrices, whose sizes vary."""

import numpy
import pace

random = numpy.random.default_rng(1)
for step in pace.steps():
    n = int(random.integers(200, 900))
    a = random.normal(size=(n, n))
    numpy.linalg.solve(a @ a.T + numpy.eye(n), a[0])
