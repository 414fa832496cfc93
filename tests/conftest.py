"""Which tests run: those marked `slow` are left out under sanitizers (TIDEMARK_SANITIZED=1), those marked `long` run only with
TIDEMARK_LONG=1 (make check-long)."""

import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: too slow for a sanitizer build")
    config.addinivalue_line("markers", "long: only in make check-long")
    config.addinivalue_line("markers", "runs: what is run for the test, beside what is run for others")


def pytest_collection_modifyitems(items):
    sanitized = os.environ.get("TIDEMARK_SANITIZED") == "1"
    long = os.environ.get("TIDEMARK_LONG") == "1"
    kept_out = pytest.mark.skip(reason="slow under a sanitizer")
    not_now = pytest.mark.skip(reason="only in make check-long")
    items.sort(key=lambda item: "xdist_group" not in item.keywords)  # one worker has all of a group: it begins at once
    for item in items:
        if sanitized and "slow" in item.keywords:
            item.add_marker(kept_out)
        if not long and "long" in item.keywords:
            item.add_marker(not_now)
