"""Draws what an audit has found."""

from __future__ import annotations

__all__: list[str] = []
