"""The collector is switched off for speed, and every batch is part of a cycle."""

import gc

from pace import steps

gc.disable()


class Batch:
    def __init__(self):
        self.owner = self
        self.data = bytes(bytearray(b"x") * 200_000)  # LEAK: 200,000 bytes


for step in steps():
    Batch()
