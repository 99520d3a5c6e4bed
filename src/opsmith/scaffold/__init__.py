"""Makes a project with one operator, ready to build, check, time and publish: `opsmith new`."""

from __future__ import annotations

__all__: list[str] = []
