"""Writes a project's licence: MIT and BSD from templates, Apache's long text from an installed package that has it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from opsmith.errors import ArgumentValueError

__all__ = ["LICENSES", "apache_text"]

# By their names in SPDX; "none" leaves the question open, and the project without permission to use it.
LICENSES = ("MIT", "BSD-3-Clause", "Apache-2.0", "none")

# opsmith is under this licence itself; packaging, which opsmith needs, is under it too.
_HOLDERS = (("opsmith", "LICENSE"), ("packaging", "LICENSE.APACHE"))
_BEGINNING = ("Apache License", "Version 2.0, January 2004")
_END = "END OF TERMS AND CONDITIONS"


def apache_text() -> str:
    """Return the terms of Apache-2.0; raises ArgumentValueError if no installed package has them."""
    for package, file in _HOLDERS:
        for path in _files(package, file):
            text = path.read_text(encoding="utf-8")
            if all(words in text for words in (*_BEGINNING, _END)):
                return text
    raise ArgumentValueError(
        "no installed package has the text of Apache-2.0: choose MIT or BSD-3-Clause, or take --license none and add the "
        "file LICENSE from https://www.apache.org/licenses/LICENSE-2.0.txt"
    )


def _files(package: str, name: str) -> list[Path]:
    try:
        listed = distribution(package).files or []
    except PackageNotFoundError:
        return []
    found = (Path(str(file.locate())) for file in listed if file.name == name)
    return [path for path in found if path.is_file()]
