"""Starts a training script and waits for it, as `uv run`, `accelerate launch` and their like do.

    launch.py SCRIPT [ARGUMENTS...]
"""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], check=False).returncode)
