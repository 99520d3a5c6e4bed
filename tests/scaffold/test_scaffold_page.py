"""docs/guides/new-project.md shows what the commands print, and names every option, file and recipe."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from opsmith.cli import main, new
from opsmith.scaffold.project import RECIPES

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "new-project.md"
# What the page types without its output; tests/scaffold/test_scaffold_build.py runs these in a new project.
_RUN_ELSEWHERE = ("python -m pytest", "python bench.py", "opsmith wheel")


def typed() -> list[tuple[str, str]]:
    """Return the commands of the page, each with what is printed below it, block by block."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def printed_by(arguments: list[str]) -> tuple[str, int]:
    """Return what `opsmith` prints, errors included, and its exit code."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(arguments)
        except SystemExit as left:
            return printed.getvalue(), int(left.code or 0)
    raise AssertionError("main() always exits")


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "_is_terminal", lambda: False)
    shown = 0
    for command, expected in typed():
        words = shlex.split(command)
        if command in _RUN_ELSEWHERE:
            assert expected == ""
        elif words[0] == "cd":
            monkeypatch.chdir(tmp_path / words[1])
        else:
            assert words[0] == "opsmith"
            if words[1] == "new":
                monkeypatch.chdir(tmp_path)
            printed, code = printed_by(words[1:])
            assert code == ("error:" in expected), printed
            assert expected in ("", printed), command
            shown += bool(expected)
    assert shown >= 3


def test_every_option_and_recipe_has_its_place() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for parameter in new.command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert f"| `{option}" in text, option
    assert re.findall(r"^### (\w+)", text, flags=re.MULTILINE) == list(RECIPES)
