"""Saves the files of a cell as a package, over nothing that it has not written itself."""

from __future__ import annotations

from pathlib import Path

from opsmith.errors import ArgumentError
from opsmith.notebook.cell import Cell

__all__ = ["save_cell"]

# What this process has saved, by path: as long as a file is that, the next version of a cell may replace it.
_saved: dict[Path, bytes] = {}


def save_cell(cell: Cell, folder: Path) -> None:
    """Write the files of a cell into a folder, which is made where there is none.

    Raises ArgumentError, and writes none of them, where a file is there with other content than an earlier version of
    the cell was saved with, and for a folder that cannot be written to.
    """
    contents = {folder.resolve() / name: text.encode() for name, text in cell.unnumbered().items()}
    try:
        others = [path.name for path, content in contents.items() if not _may_replace(path, content)]
        if others:
            raise ArgumentError(
                f"--save {folder}: {', '.join(others)} there is not what this session saved, and would be lost; nothing was "
                "written. Move or delete it, or name another folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            path.write_bytes(content)
            _saved[path] = content
    except OSError as error:
        raise ArgumentError(f"--save {folder}: {error.strerror or error}: {error.filename or folder}") from error


def _may_replace(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() in (content, _saved.get(path))
    except FileNotFoundError:
        return not path.is_symlink()  # one that leads nowhere is the user's, too
