"""Arrow tables are kept; their memory comes from Arrow's own pool."""

import pyarrow
from pace import steps

tables = []
for step in steps():
    column = pyarrow.array(range(32_768), pyarrow.int64())  # LEAK: 256 KiB
    tables.append(pyarrow.table({"n": column}))
