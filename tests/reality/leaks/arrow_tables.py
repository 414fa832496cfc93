"""Arrow tables are kept; their memory comes from Arrow's own pool."""

import pyarrow
import pyarrow.compute
from pace import steps

base = pyarrow.array(range(32_768), pyarrow.int64())
tables = []
for step in steps():
    column = pyarrow.compute.add(base, step)  # LEAK: 256 KiB
    tables.append(pyarrow.table({"n": column}))
