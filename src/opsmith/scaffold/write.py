"""Writes a project's files into a folder of their own."""

from __future__ import annotations

from pathlib import Path

from opsmith.errors import ArgumentValueError
from opsmith.scaffold.project import Project
from opsmith.scaffold.render import render

__all__ = ["write_project"]


def write_project(project: Project, folder: Path) -> list[str]:
    """Write a project into a folder that does not exist or is empty, and return the files' paths within it.

    Raises ArgumentValueError if there is something in the folder, or a file in its place. Nothing is overwritten.
    """
    if folder.is_dir():
        if any(folder.iterdir()):
            raise ArgumentValueError(f"{folder} is not empty: choose another --folder, or another name")
    elif folder.is_symlink() or folder.exists():
        raise ArgumentValueError(f"{folder} is a file: choose another --folder, or another name")
    # Rendered before anything is written: what cannot be made leaves nothing behind.
    texts = render(project)
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return list(texts)
