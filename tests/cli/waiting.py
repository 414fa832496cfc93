"""Waiting for a condition, and what the system says of a process and its signals."""

import pathlib
import time


def wait_for(condition, what="what was waited for", seconds=60):
    """Until condition() is true; returns what it was."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return found


# For a program that a test writes: until("select 1 from tick") waits until the recording of it has such a row.
UNTIL = """
import sqlite3, time
def until(sql, path="a.tide"):
    found = None
    while not found:
        time.sleep(0.01)
        try:
            db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            try:
                found = db.execute(sql).fetchone()
            finally:
                db.close()
        except sqlite3.Error:  # not there yet
            pass
"""


def has(process, field, number):
    """Whether a signal is in a mask of /proc/PID/status, as SigCgt: those that have a handler."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0], 16) >> (number - 1) & 1
