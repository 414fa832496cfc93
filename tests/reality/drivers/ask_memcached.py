"""Sets and gets keys of a memcached.

    ask_memcached.py SECONDS PORT
"""

import random
import socket
import sys
import time

end = time.monotonic() + float(sys.argv[1])
while True:
    try:
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        break
    except ConnectionRefusedError:
        if time.monotonic() > end:
            sys.exit(1)
        time.sleep(0.1)
lines = connection.makefile("rwb")
while time.monotonic() < end:
    key = f"key{random.randrange(5000)}".encode()
    value = b"v" * (100 + hash(key) % 400)
    lines.write(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
    lines.flush()
    while lines.readline() != b"END\r\n":
        pass
