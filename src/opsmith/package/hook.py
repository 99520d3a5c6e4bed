"""Answers setuptools' hook, which is called for every project, where the project has a [tool.opsmith] table.

So nothing but the standard library is imported before the table is found: a project that does not know opsmith must
neither wait for it nor fail because of it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["finalize_distribution_options"]


def finalize_distribution_options(distribution: Any) -> None:
    """Add the operators of a project whose pyproject.toml has [tool.opsmith]."""
    pyproject = Path.cwd() / "pyproject.toml"
    if not pyproject.is_file() or b"opsmith" not in pyproject.read_bytes():
        return
    from setuptools.errors import SetupError

    from opsmith.build.project import read_project
    from opsmith.errors import OpsmithError

    try:
        project = read_project(pyproject)
        if project is None:
            return
        from opsmith.package.metadata import refuse_incomplete

        refuse_incomplete(pyproject, project)
        if find_spec("torch") is None:
            raise SetupError(
                "opsmith builds operators with the headers of a torch, which this build environment does not have. Add "
                '"torch" to build-system.requires in pyproject.toml, or build in your own environment with `pip install '
                "--no-build-isolation .`"
            )
        from opsmith.build.setuptools import add_operators
        from opsmith.package.wheel.command import wheel_command
    except OpsmithError as error:
        # setuptools prints this one as a message, without a traceback.
        raise SetupError(str(error)) from error
    extension = add_operators(distribution, project, pyproject.parent)
    distribution.cmdclass = {**wheel_command(extension), **distribution.cmdclass}
