"""Threads that wait for an event which never comes, each with its working memory."""

import threading

from pace import steps

never = threading.Event()


def work():
    scratch = bytearray(b"x") * 262_144  # LEAK: 256 KiB
    never.wait()
    return scratch


for step in steps():
    threading.Thread(target=work, daemon=True).start()
