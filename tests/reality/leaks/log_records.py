"""A handler that buffers records until an error comes: each record holds its arguments."""

import logging
import logging.handlers

import numpy
from pace import steps

log = logging.getLogger("train")
log.setLevel(logging.DEBUG)
log.addHandler(logging.handlers.MemoryHandler(capacity=1_000_000, flushLevel=logging.ERROR))
for step in steps():
    batch = numpy.full(32_768, step, dtype=numpy.float64)  # LEAK: 256 KiB
    log.debug("batch %s", batch)
