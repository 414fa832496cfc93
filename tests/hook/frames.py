"""Holds blocks of sizes that say where they were made; tests/cli/test_hook.py knows the lines."""
import os
import sys
import threading

kept = []


class Trainer:
    def hold(self, size):
        kept.append(
            bytearray(size))  # line 12

    def step(self):
        self.hold(1001000)

    def through_map(self):
        return list(map(self.hold, [1002000]))


def through_lambda():
    sorted([3], key=lambda x: kept.append(bytearray(1003000)) or x)


def generator():
    for size in (1004000,):
        kept.append(bytearray(size))
        yield size


class Odd:
    def __del__(self):
        kept.append(bytearray(1005000))


def nested(n):
    if n:
        return nested(n - 1)
    return kept.append(bytearray(1006000))


def naïve_ünï():
    kept.append(bytearray(1007000))


Trainer().step()
Trainer().through_map()
through_lambda()
list(generator())
odd = Odd()
del odd
nested(5)
naïve_ünï()
thread = threading.Thread(target=lambda: kept.append(bytearray(1008000)), name="worker")
thread.start()
thread.join()
exec(compile("\n\nkept.append(bytearray(1009000))", "made-up.py", "exec"))
sys.stdout.flush()
os._exit(0)  # with everything still held
