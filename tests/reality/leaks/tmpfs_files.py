"""Temporary files in /dev/shm that are written, closed and forgotten while the program runs."""

import pathlib
import shutil
import tempfile

from pace import steps

folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
try:
    for step in steps():
        (folder / f"batch-{step}").write_bytes(bytes(262_144))  # LEAK: 256 KiB
finally:
    shutil.rmtree(folder)
