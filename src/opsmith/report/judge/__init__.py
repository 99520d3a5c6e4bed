"""Shows judgements as text and as a page."""

from __future__ import annotations

__all__: list[str] = []
