"""docs/guides/new-project.md shows what the commands print, and names every option, file and recipe."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from forks import python_c
from opsmith.cli import new
from opsmith.scaffold.project import RECIPES

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "new-project.md"
# What the page types without its output; tests/scaffold/test_scaffold_build.py runs these in a new project.
_RUN_ELSEWHERE = ("python -m pytest", "python bench.py", "opsmith wheel")


def typed() -> list[tuple[str, str]]:
    """Return the commands of the page, each with what is printed below it, block by block."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    folder, shown = tmp_path, 0
    for command, expected in typed():
        words = shlex.split(command)
        if command in _RUN_ELSEWHERE:
            assert expected == ""
        elif words[0] == "cd":
            folder = tmp_path / words[1]
        else:
            assert words[0] == "opsmith"
            if words[1] == "new":
                folder = tmp_path
            # In a process of its own: a module that is imported stays.
            done = python_c("from opsmith.cli import main; main()", words[1:], env=env, cwd=folder)
            assert (done.returncode != 0) == ("error:" in expected), done.stderr
            assert expected in ("", done.stdout + done.stderr), command
            shown += bool(expected)
    assert shown >= 3


def test_every_option_and_recipe_has_its_place() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for parameter in new.command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert f"| `{option}" in text, option
    assert re.findall(r"^### (\w+)", text, flags=re.MULTILINE) == list(RECIPES)
