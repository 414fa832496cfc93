"""Every fitted model of a search is kept, and each keeps its training data."""

import numpy
from pace import steps
from sklearn.neighbors import KNeighborsClassifier

rng = numpy.random.default_rng(0)
tried = []
for step in steps():
    x = rng.standard_normal((2000, 16))  # LEAK: 256,000 bytes
    y = (x[:, 0] > 0).astype(int)
    tried.append(KNeighborsClassifier(n_neighbors=1 + step % 9, algorithm="brute").fit(x, y))
