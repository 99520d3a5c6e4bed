"""The table [tool.opsmith]: what it may say, and what a mistake in it is answered with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import setuptools
from setuptools.errors import SetupError

from opsmith.build.project import Project, parse_torch_target, read_project, read_table
from opsmith.errors import DefinitionError
from opsmith.package import hook

HEAD = '[tool.opsmith]\noperators = ["smooth"]\n'


@pytest.mark.parametrize(
    ("text", "project"),
    [
        (HEAD, Project(("smooth",))),
        (HEAD + "archs = '8.0;9.0'", Project(("smooth",), archs="8.0;9.0")),
        (HEAD + "archs = ['8.0', '9.0+PTX']", Project(("smooth",), archs="8.0;9.0+PTX")),
        (HEAD + "devices = ['cuda', 'cpu']", Project(("smooth",), devices=("cpu", "cuda"))),
        (HEAD + "torch-target = '2.12.1'", Project(("smooth",), torch_target=(2, 12))),
        ("", None),
        ("[tool]\n", None),
        ("[tool.other]\nopsmith = 3\n", None),
    ],
)
def test_a_table_is_read(text: str, project: Project | None, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert read_project(tmp_path / "pyproject.toml") == project


MISTAKES = [
    (HEAD + "archs = [8.0, 9.0]", 'archs is [8.0, 9.0]; write texts: archs = ["8.0", "9.0+PTX"]'),
    (HEAD + "archs = 9.0", 'archs is 9.0; write texts: archs = ["8.0", "9.0+PTX"]'),
    (HEAD + "archs = []", "archs is []; write texts"),
    (
        HEAD + "torch-target = 2.10",
        'torch-target is 2.1 (as a number, 2.10 is 2.1); write a text: torch-target = "2.10"',
    ),
    (HEAD + "torch-target = 3", 'torch-target is 3; write a text: torch-target = "2.10"'),
    (HEAD + 'torch-target = "2.\u00b2"', "the torch target '2.\u00b2' is not a version such as \"2.10\""),
    (HEAD + 'torch-target = "2.9"', "the torch target 2.9 is older than 2.10"),
    (HEAD + 'devices = "cpu"', 'devices is \'cpu\'; write a list: devices = ["cpu", "cuda"]'),
    ('[tool.opsmith]\noperators = "smooth"', "operators is 'smooth'; list the modules to build"),
    ("[tool.opsmith]", 'operators is missing; list the modules to build: operators = ["smooth"]'),
    ("[tool]\nopsmith = 3", "tool.opsmith is 3; it must be a table, written as [tool.opsmith]"),
    ("tool = 3  # opsmith", "tool is 3; it must be a table, written as [tool.opsmith]"),
    (HEAD + "archs = ", "pyproject.toml is not valid TOML: "),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_a_mistake_is_named_with_what_to_write(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=re.escape(told)):
        read_project(pyproject)
    # What `pip install` shows, without a traceback.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match=re.escape(told)):
        hook.finalize_distribution_options(setuptools.Distribution())


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_bytes(b"# opsmith \xff\n")
    with pytest.raises(
        DefinitionError, match=r"pyproject.toml is not valid TOML: 'utf-8' codec can't decode byte 0xff"
    ):
        read_project(pyproject)


@pytest.mark.parametrize("name", ["project", "build-system"])
def test_other_tables_are_tables_too(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{name} = 3\n")
    with pytest.raises(DefinitionError, match=rf"{name} is 3; it must be a table, written as \[{name}\]"):
        read_table(tmp_path / "pyproject.toml", name)


@pytest.mark.parametrize("text", ["", "2", "2.", "two.ten", "2.10a", "-2.10", "2." + "9" * 5000, "\u0662.10"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(DefinitionError, match=r'--torch-target: the torch target .* is not a version such as "2\.10"'):
        parse_torch_target(text, "--torch-target")
