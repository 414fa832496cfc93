"""SciPy: sparse systems, Fourier transforms and a minimum, again and again."""

import numpy
import pace
import scipy.fft
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg

random = numpy.random.default_rng(1)
for step in pace.steps():
    n = 4000 + 500 * (step % 5)
    matrix = scipy.sparse.random(n, n, 5 / n, format="csc", random_state=step) + scipy.sparse.eye(n, format="csc") * 10
    scipy.sparse.linalg.spsolve(matrix, random.normal(size=n))
    scipy.fft.rfft(random.normal(size=1 << 18))
    scipy.optimize.minimize(scipy.optimize.rosen, random.normal(size=6))
