"""Sizes and times for people, as the command line writes them (src/base/units.c)."""

from __future__ import annotations

_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: float) -> str:
    """4.1 GiB, 208 KiB, -12.0 MiB."""
    value, unit = float(size), 0
    while abs(value) >= 1023.5 and unit < len(_NAMES) - 1:
        value /= 1024
        unit += 1
    whole = value == int(value) if unit == 0 else abs(value) >= 99.95
    return f"{value:.{0 if whole else 1}f} {_NAMES[unit]}"


def change_text(size: float) -> str:
    """The same with a plus sign for growth; zero has none."""
    return f"{'+' if size > 0 else ''}{size_text(size)}"


def duration_text(seconds: float) -> str:
    """12 us, 250 ms, 3.1 s, 41 s, 12 m."""
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    return f"{seconds / 60:.0f} m"
