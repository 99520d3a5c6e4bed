"""Makes a project with one operator, ready to build, check, time and publish: `opsmith new`."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from opsmith._streams import is_terminal

__all__ = ["command"]

# As in scaffold/licenses.py and scaffold/project.py, which the help does not wait for; a test compares them.
_LICENSES = ("MIT", "BSD-3-Clause", "Apache-2.0", "none")
_RECIPES = ("github", "conda", "kernels")


@click.command("new")
@click.argument("name")
@click.option("--cuda", is_flag=True, help="Add a kernel for GPUs, which the wheel contains as well.")
@click.option("--cmake", is_flag=True, help="Build with scikit-build-core and CMake in place of setuptools.")
@click.option("--wheel", is_flag=True, help="Add what a release needs: changelog, classifiers, --recipe github.")
@click.option(
    "--recipe",
    "recipes",
    type=click.Choice(_RECIPES),
    multiple=True,
    help="Add a way to publish: GitHub's workflow for PyPI, conda's recipe, Hugging Face's kernels. May be repeated.",
)
@click.option(
    "--license",
    "license_name",
    type=click.Choice(_LICENSES, case_sensitive=False),
    metavar="|".join(_LICENSES),
    help="The licence.  [default: asked for in a terminal, otherwise MIT]",
)
@click.option("--author", default="", metavar="NAME", help="Who has the copyright.  [default: The NAME developers]")
@click.option(
    "--folder", type=click.Path(path_type=Path), metavar="DIR", help="A folder that is new or empty.  [default: NAME]"
)
def command(
    name: str,
    cuda: bool,
    cmake: bool,
    wheel: bool,
    recipes: tuple[str, ...],
    license_name: str | None,
    author: str,
    folder: Path | None,
) -> None:
    """Make a project NAME: an operator with kernels, gradient, test and benchmark, which becomes a wheel.

    Nothing is overwritten.
    """
    from opsmith.scaffold.project import Project
    from opsmith.scaffold.render import FILES
    from opsmith.scaffold.write import write_project

    # A bad name is refused before anything is asked.
    project = Project(name, cuda, cmake, wheel, license_name or "MIT", recipes, author)
    if license_name is None and _is_terminal():
        asked = click.prompt("Licence", type=click.Choice(_LICENSES, case_sensitive=False), default="MIT")
        project = Project(name, cuda, cmake, wheel, asked, recipes, author)
    folder = folder or Path(name)
    written = write_project(project, folder)
    purposes = {file.path.format(module=project.module): file.purpose for file in FILES}
    click.echo(f"{folder}/")
    width = max(map(len, written))
    for path in written:
        click.echo(f"  {path:{width}}  {purposes[path]}")
    click.echo(f"\n  cd {shlex.quote(str(folder))}")
    builder, extra = ("scikit_build_core", "cmake") if cmake else ("setuptools", "setuptools")
    if any(find_spec(module) is None for module in ("pytest", "build", builder)):
        click.echo(f'  pip install pytest "opsmith[{extra},wheel]"    # what the next two need, and is not here')
    click.echo("  python -m pytest    # builds the operator and checks it against its definition")
    click.echo("  opsmith wheel       # makes the wheel to publish, and audits it")


def _is_terminal() -> bool:
    return is_terminal(sys.stdin)
