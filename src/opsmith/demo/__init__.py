"""Runs `opsmith demo`: builds an LLTM three ways, proves the builds equal, checks, times and trains it.

`opsmith.report.demo` draws what it does and finds.
"""

from __future__ import annotations

__all__: list[str] = []
