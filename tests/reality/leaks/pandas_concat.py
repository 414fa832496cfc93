"""A table grows by pandas.concat, which copies it whole in every step."""

import numpy
import pandas
from pace import steps

log = pandas.DataFrame({f"c{i}": numpy.zeros(0) for i in range(8)})
for step in steps():
    rows = pandas.DataFrame(numpy.random.rand(4096, 8), columns=log.columns)
    log = pandas.concat([log, rows], ignore_index=True)  # LEAK: 256 KiB
