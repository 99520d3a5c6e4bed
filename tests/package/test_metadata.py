"""A project whose wheel could not be installed is refused with the lines to add."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opsmith.build.project import read_project
from opsmith.errors import DefinitionError
from opsmith.package.metadata import refuse_incomplete

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = '[tool.opsmith]\noperators = ["smooth"]\n'


def read(folder: Path, text: str) -> None:
    pyproject = folder / "pyproject.toml"
    pyproject.write_text(text + TABLE)
    project = read_project(pyproject)
    assert project is not None
    refuse_incomplete(pyproject, project)


@pytest.mark.parametrize(
    "text",
    [
        '[project]\nname = "smooth"\ndependencies = ["opsmith", "torch>=2.10"]\n',
        '[project]\nname = "smooth"\ndependencies = ["Opsmith>=0.1; python_version > \'3.8\'", "torch"]\n',
        '[project]\nname = "smooth"\ndynamic = ["dependencies"]\n',
        # setuptools says what is wrong with these
        '[project]\nname = "smooth"\ndynamic = 3\n',
        '[project]\nname = "smooth"\ndependencies = 3\n',
    ],
)
def test_what_says_all_is_taken(tmp_path, text):
    read(tmp_path, text)


def test_without_a_project_the_table_is_shown(tmp_path):
    with pytest.raises(
        DefinitionError, match="has no \\[project\\] table, and would become a wheel called UNKNOWN"
    ) as found:
        read(tmp_path, "")
    shown = str(found.value).partition("Add\n\n")[2]
    # It is what the message asks for.
    assert tomllib.loads(shown)["project"]["dependencies"] == ["opsmith", "torch>=2.10"]
    read(tmp_path, shown)


@pytest.mark.parametrize("name", ["setup.py", "setup.cfg"])
def test_metadata_of_another_file_is_left_to_setuptools(tmp_path, name):
    (tmp_path / name).write_text("")
    read(tmp_path, "")


@pytest.mark.parametrize(
    ("has", "lacks", "listed"),
    [
        ("", "opsmith and torch", '"opsmith", "torch>=2.12"'),
        ('dependencies = ["numpy"]\n', "opsmith and torch", '"numpy", "opsmith", "torch>=2.12"'),
        ('dependencies = ["torch>=2.12", "opsmith-extra"]\n', "opsmith", '"torch>=2.12", "opsmith-extra", "opsmith"'),
        ('dependencies = ["opsmith"]\n', "torch", '"opsmith", "torch>=2.12"'),
    ],
)
def test_what_it_does_not_require_is_named_with_the_whole_line(tmp_path, has, lacks, listed):
    text = f'[project]\nname = "smooth"\n{has}'
    with pytest.raises(DefinitionError) as found:
        pyproject = tmp_path / "pyproject.toml"
        pyproject.write_text(text + TABLE + 'torch-target = "2.12"\n')
        refuse_incomplete(pyproject, read_project(pyproject))
    assert f"does not require {lacks}, so pip would" in str(found.value)
    assert f"dependencies = [{listed}]" in str(found.value)


def test_a_standalone_project_requires_torch_and_no_opsmith(tmp_path):
    pyproject = tmp_path / "pyproject.toml"

    def refuse(dependencies):
        text = f'[project]\nname = "smooth"\ndependencies = {dependencies}\n'
        pyproject.write_text(text + TABLE + "standalone = true\n")
        refuse_incomplete(pyproject, read_project(pyproject))

    refuse(["torch>=2.10"])
    with pytest.raises(DefinitionError, match=r"\[project\] requires it\. Take it out of `dependencies`"):
        refuse(["Opsmith>=0.1", "torch>=2.10"])
    with pytest.raises(DefinitionError, match="does not require torch, so pip would"):
        refuse([])


def test_standalone_is_true_or_false(tmp_path):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(TABLE + 'standalone = "yes"\n')
    with pytest.raises(DefinitionError, match=r"standalone is 'yes'; write true or false"):
        read_project(pyproject)
