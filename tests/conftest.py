"""Which tests run: with sanitizers (TIDEMARK_SANITIZED=1) those marked `slow` only in make check-long (TIDEMARK_SLOW=1), and those
marked `unsanitized` never; those marked `long` run only with TIDEMARK_LONG=1 (make check-long)."""

import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: with sanitizers only in make check-long")
    config.addinivalue_line("markers", "unsanitized: not with sanitizers, which take memory and time of their own")
    config.addinivalue_line("markers", "long: only in make check-long")
    config.addinivalue_line("markers", "runs: what is run for the test, beside what is run for others")


def pytest_collection_modifyitems(items):
    sanitized = os.environ.get("TIDEMARK_SANITIZED") == "1"
    long = os.environ.get("TIDEMARK_LONG") == "1"
    slow = os.environ.get("TIDEMARK_SLOW") == "1"
    never = pytest.mark.skip(reason="says nothing with sanitizers")
    too_slow = pytest.mark.skip(reason="with sanitizers only in make check-long")
    not_now = pytest.mark.skip(reason="only in make check-long")
    items.sort(key=lambda item: "xdist_group" not in item.keywords)  # one worker has all of a group: it begins at once
    for item in items:
        if sanitized and "unsanitized" in item.keywords:
            item.add_marker(never)
        if sanitized and not slow and "slow" in item.keywords:
            item.add_marker(too_slow)
        if not long and "long" in item.keywords:
            item.add_marker(not_now)
