"""Explains failures of compilers, linkers and loaders: cause and remedy.

A table: each entry has a pattern, a cause and a remedy. It knows only text and the facts it is given, so that builds, the
runtime and the command line can all ask it. docs/reference/errors.md is generated from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.catalogue.entry import Entry, Facts, Group
    from opsmith.catalogue.lookup import Explanation, explain
    from opsmith.catalogue.table import ENTRIES, GROUPS

__all__ = ["ENTRIES", "GROUPS", "Entry", "Explanation", "Facts", "Group", "explain"]

__getattr__ = lazy_names(
    __name__,
    {
        "ENTRIES": "table",
        "Entry": "entry",
        "Explanation": "lookup",
        "Facts": "entry",
        "GROUPS": "table",
        "Group": "entry",
        "explain": "lookup",
    },
)
