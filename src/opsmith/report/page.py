"""Renders HTML pages and the SVG pictures in them from the templates of this package.

A page is one file: the style and the script are written into it, and nothing is fetched. Every value is escaped unless it
was rendered by a template itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from opsmith.report import units
from opsmith.report.table import kind_of_cell

__all__ = ["Link", "fragment", "made_on", "page"]


_FILTERS = ("count_of", "duration", "percent", "short_dtype", "size", "verdict_text")


@dataclass(frozen=True)
class Link:
    """A section of a page in the list at its top; `kind` is "passed", "failed" or nothing."""

    anchor: str
    name: str
    kind: str = ""
    about: str = ""


def page(template: str, **values: Any) -> str:
    """Return a page: a template, by its name without `.html.j2`, filled with values."""
    return _environment().get_template(f"{template}.html.j2").render(values)


def fragment(template: str, **values: Any) -> Markup:
    """Return a part of a page, which other templates take as it is."""
    return Markup(page(template, **values))


def made_on(machine: Mapping[str, Any], date: str = "") -> str:
    """Return a page's last line: the versions and the machine of `checker.as_json.machine_facts`, and the date."""
    parts = (
        f"opsmith {machine['opsmith']}",
        f"torch {machine['torch']}",
        f"Python {machine['python']}",
        machine["system"],
        f"{machine['processor']}, {units.count_of(machine['cores'], 'core')}",
        machine["gpu"],
        date,
    )
    return " · ".join(filter(None, parts))


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    environment.filters |= {name: getattr(units, name) for name in _FILTERS}
    environment.filters["kind_of_cell"] = kind_of_cell
    return environment
