"""Draws what check, bench, profile and the demo have found: live screens, text, Markdown and HTML pages.

The modules in here and `templates/` are shared; `check/`, `bench/`, `profile/` and `demo/` draw one kind of result each.
Nothing that produces a result imports this package: `opsmith._drawing` finds the function that draws it.
"""

from __future__ import annotations

__all__: list[str] = []
