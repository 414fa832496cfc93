"""Programs that leak, each by another mechanism."""

from __future__ import annotations

PROGRAMS = []
