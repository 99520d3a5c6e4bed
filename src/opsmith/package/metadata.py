"""Refuses a project whose metadata would make a wheel that cannot be installed as it should be.

setuptools takes what pyproject.toml does not say for empty: without [project] it makes a wheel UNKNOWN-0.0.0, and without
`dependencies` one that pip installs beside no torch at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opsmith.build.project import Project, read_table
from opsmith.errors import DefinitionError

__all__ = ["refuse_incomplete"]

# The name at the start of a requirement (PEP 508).
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def refuse_incomplete(pyproject: Path, project: Project) -> None:
    """Raise DefinitionError, with the lines to add, if a project has no name or does not require opsmith and torch.

    A project with a setup.py or setup.cfg and no [project] table has its metadata there, and is left to setuptools.
    """
    table = read_table(pyproject, "project")
    torch = "torch>={}.{}".format(*project.torch_target)
    if table is None:
        if any((pyproject.parent / name).is_file() for name in ("setup.py", "setup.cfg")):
            return
        name = re.sub(r"\W+", "-", Path(project.operators[0]).stem.partition(".")[0])
        raise DefinitionError(
            f"{pyproject} has no [project] table, and would become a wheel called UNKNOWN-0.0.0. Add\n\n"
            f'[project]\nname = "{name}"\nversion = "0.1.0"\ndependencies = ["opsmith", "{torch}"]\n'
        )
    dynamic, dependencies = table.get("dynamic", []), table.get("dependencies", [])
    # What is no list is refused by setuptools, which looks at [project] after this.
    if not isinstance(dynamic, list) or not isinstance(dependencies, list) or "dependencies" in dynamic:
        return
    required = _names(dependencies)
    if project.standalone and "opsmith" in required:
        raise DefinitionError(
            f"{pyproject}: with `standalone`, wheels do without opsmith, and [project] requires it. Take it out of "
            "`dependencies`; it stays in build-system.requires"
        )
    needed = (("torch", torch),) if project.standalone else (("opsmith", "opsmith"), ("torch", torch))
    missing = [text for name, text in needed if name not in required]
    if missing:
        lacks = " and ".join(text.partition(">")[0] for text in missing)
        listed = ", ".join(f'"{text}"' for text in [*dependencies, *missing])
        raise DefinitionError(
            f"{pyproject}: [project] does not require {lacks}, so pip would install a wheel that cannot be imported. "
            f"Write\n\ndependencies = [{listed}]\n"
        )


def _names(dependencies: Iterable[Any]) -> set[str]:
    """Return the names of a project's requirements, as PEP 503 compares them."""
    found = (_NAME.match(text) for text in dependencies if isinstance(text, str))
    return {re.sub(r"[-_.]+", "-", match[1]).lower() for match in found if match}
