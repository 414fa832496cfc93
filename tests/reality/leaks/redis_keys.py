"""A client that sets keys without an expiry: the server's memory grows."""

import socket
import sys

from pace import steps

server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
replies = server.makefile("rb")
for step in steps():
    for i in range(4):
        key, value = b"session:%d" % (4 * step + i), b"x" * 65_000
        server.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value))
        replies.readline()
