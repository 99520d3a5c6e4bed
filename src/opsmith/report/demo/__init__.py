"""Draws what the demo does and finds: `screen` while it runs, `page` at its end."""

from __future__ import annotations

__all__: list[str] = []
