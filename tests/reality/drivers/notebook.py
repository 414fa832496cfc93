"""Writes a notebook whose cells work for some seconds each.

    notebook.py FILE
"""

import sys

import nbformat

cells = [
    nbformat.v4.new_code_cell(
        "import numpy as np, time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n    np.linalg.svd(np.random.rand(120, 120))\nprint('done')"
    )
    for _ in range(8)
]
nbformat.write(nbformat.v4.new_notebook(cells=cells), sys.argv[1])
