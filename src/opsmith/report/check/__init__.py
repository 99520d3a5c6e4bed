"""Draws what a check has found: `grid` arranges it, `text`, `live` and `page` show it."""

from __future__ import annotations

__all__: list[str] = []
