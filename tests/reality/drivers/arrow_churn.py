"""Arrow: tables from the library's own pool, of which the last fifty are kept."""

import collections

import pace
import pyarrow
import pyarrow.compute

base = pyarrow.array(range(32_768), pyarrow.int64())
kept = collections.deque(maxlen=50)
for step in pace.steps():
    column = pyarrow.compute.add(base, step)
    table = pyarrow.table({"n": column, "half": pyarrow.compute.divide(column, 2)})
    kept.append(table.filter(pyarrow.compute.greater(table["half"], step % 100)))
