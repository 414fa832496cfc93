"""``python -m tidemark ARGS``, and the command ``tidemark`` that pip installs: runs the program itself, if it is there."""

from __future__ import annotations

import os
import sys

from ._binary import find, obstacle


def main() -> int:
    path = find()
    if path is None:
        print("tidemark: the program is not installed; this package only leaves marks for it", file=sys.stderr)
        print("hint: install a wheel, or 'make && sudo make install' in the checkout, or name it with TIDEMARK_BINARY", file=sys.stderr)
        return 2
    reason = obstacle(path)
    if reason is not None:
        print(f"tidemark: {reason}", file=sys.stderr)
        print("hint: build it here: 'pip install ./python' in a checkout", file=sys.stderr)
        return 2
    try:
        os.execv(path, ["tidemark", *sys.argv[1:]])
    except OSError as error:
        print(f"tidemark: cannot start '{path}': {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
