"""What a program takes: processor seconds and memory."""

import json
import subprocess
import sys

# The kernel counts what a process had before it became another program: of pytest, that can be more than is measured.
MEASURE = """
import json, os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print("\\n--\\n" + json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


def measured(argv, env):
    """(exit code, output, processor seconds, peak memory in MiB) of a program that gets no input."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *map(str, argv)], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    said, _, used = done.stdout.rpartition("\n--\n")
    code, seconds, kib = json.loads(used)
    return code, said, seconds, kib / 1024
