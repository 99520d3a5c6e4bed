"""Renders a project's files from the templates of this package.

Expressions are written {@ so @}, because GitHub's workflows, conda's recipes and C++ have uses of their own for braces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opsmith.scaffold.licenses import apache_text
from opsmith.scaffold.project import Project

__all__ = ["FILES", "File", "render"]


def _always(_project: Project) -> bool:
    return True


def _with(recipe: str) -> Callable[[Project], bool]:
    return lambda project: recipe in project.recipes


@dataclass(frozen=True)
class File:
    """A file of a project: its path, in which `{module}` is replaced, what it is for, its template, and who gets it."""

    path: str
    purpose: str
    template: str
    wanted: Callable[[Project], bool] = _always


FILES = (
    File("{module}/__init__.py", "the definition of the operator and of its gradient", "definition.py"),
    File("{module}/rms_norm.cpp", "the kernels for CPUs", "rms_norm.cpp"),
    File("{module}/rms_norm.cu", "the kernels for GPUs", "rms_norm.cu", lambda project: project.cuda),
    File("{module}/py.typed", "tells type checkers that the package has types", "py.typed"),
    File("tests/test_{module}.py", "the check, and a value that you know", "test.py"),
    File("bench.py", "the sizes and competitors to time", "bench.py"),
    File("pyproject.toml", "metadata, and what the build and the linters are told", "pyproject.toml"),
    File("CMakeLists.txt", "the build with CMake", "CMakeLists.txt", lambda project: project.cmake),
    File("README.md", "what it is, and the commands", "README.md"),
    File("LICENSE", "the licence", "LICENSE", lambda project: project.license != "none"),
    File("CHANGELOG.md", "what users notice, by release", "CHANGELOG.md", lambda project: project.wheel),
    File(".github/workflows/test.yml", "CI: lint, tests, a wheel", "test.yml"),
    File(".github/workflows/release.yml", "publishes a tag: wheel, proof, PyPI", "release.yml", _with("github")),
    File(".github/dependabot.yml", "keeps the actions current", "dependabot.yml"),
    File("conda/recipe.yaml", "the recipe of rattler-build", "recipe.yaml", _with("conda")),
    File("hub/build.toml", "what Hugging Face's kernel-builder is told", "build.toml", _with("kernels")),
    File("hub/flake.nix", "where kernel-builder comes from", "flake.nix", _with("kernels")),
    File(
        "hub/torch-ext/{module}/__init__.py",
        "the operator for the Hub, without opsmith",
        "hub_init.py",
        _with("kernels"),
    ),
    File(".vscode/settings.json", "where editors find commands and stubs", "settings.json"),
    File(".clang-format", "the style of kernels", "clang-format"),
    File(".editorconfig", "indentation and line ends", "editorconfig"),
    File(".gitignore", "what is built", "gitignore"),
)


def render(project: Project) -> dict[str, str]:
    """Return the text of each file of a project, by its path from the project's folder.

    Raises ArgumentValueError if the licence's text cannot be had.
    """
    return {_path(file, project): _text(file, project) for file in FILES if file.wanted(project)}


def _path(file: File, project: Project) -> str:
    return file.path.format(module=project.module)


def _text(file: File, project: Project) -> str:
    if file.path == "LICENSE" and project.license == "Apache-2.0":
        return apache_text()
    purposes = {_path(other, project): other.purpose for other in FILES if other.wanted(project)}
    return _environment().get_template(f"{file.template}.j2").render(project=project, files=purposes)


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        variable_start_string="{@",
        variable_end_string="@}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
