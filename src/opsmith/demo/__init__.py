"""What `opsmith demo` does: builds an LLTM three ways, proves the builds equal, times them, trains, and reports."""

from __future__ import annotations

__all__: list[str] = []
