"""Cycles of garbage that the collector takes every hundred steps or so, and a leak below them."""

import gc

import numpy
from pace import steps

gc.disable()
kept = []


class Node:
    def __init__(self):
        self.itself, self.payload = self, numpy.ones(65_536)


for step in steps(pace=0.05):
    Node()
    if step % 37 == 36:
        gc.collect()
    kept.append(numpy.ones(16_384))  # LEAK: 128 KiB
