"""Tells how a library leaves torch's C++ API for the stable ABI: what it uses, where, and what replaces it."""

from __future__ import annotations

__all__: list[str] = []
