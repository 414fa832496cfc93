"""Starts the program of vision.py with 300 photographs; its truth and its switches are there."""

from __future__ import annotations

import vision

if __name__ == "__main__":
    vision.main(items=300)
