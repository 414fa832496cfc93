"""Anonymous mappings that are never closed."""

import mmap

from pace import steps

rings = []
for step in steps():
    ring = mmap.mmap(-1, 393_216)  # LEAK: 384 KiB
    ring.write(bytes(393_216))
    rings.append(ring)
