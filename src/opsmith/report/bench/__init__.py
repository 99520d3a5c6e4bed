"""Draws what a benchmark has found: `grid` arranges it, `text`, `markdown`, `live` and `page` show it."""

from __future__ import annotations

__all__: list[str] = []
