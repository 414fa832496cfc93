"""Each call of a set-up function adds file handlers anew to the same logger; a file object keeps a buffer."""

import logging
import os

from pace import steps


def logger_for(job):
    log = logging.getLogger("job")
    log.setLevel(logging.INFO)
    log.addHandler(logging.FileHandler("job.log"))  # LEAK: a handler, a file and its buffers
    return log


for step in steps():
    logger_for(step)
os._exit(0)
