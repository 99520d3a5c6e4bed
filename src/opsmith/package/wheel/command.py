"""Gives setuptools a `bdist_wheel` that makes wheels of operators as they should be published.

Nothing here is imported unless setuptools is running already.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from opsmith.build.project import parse_torch_target
from opsmith.build.setuptools import OperatorExtension
from opsmith.errors import OpsmithError
from opsmith.package.wheel.finish import finish_wheel
from opsmith.toolchain.archs import parse_cuda_release

__all__ = ["wheel_command"]

# setuptools before 70.1 leaves wheels to the package of that name.
_HOMES = ("setuptools.command.bdist_wheel", "wheel.bdist_wheel")
_OPTIONS = [
    ("torch-target=", None, "oldest torch that the operators run with, such as 2.10"),
    ("archs=", None, "GPU architectures, such as '8.0;9.0+PTX'"),
    ("cuda=", None, "CUDA whose nvcc compiles, such as 12"),
    ("standalone", None, "make a wheel that does without opsmith"),
]


def wheel_command(operators: OperatorExtension) -> dict[str, type[Any]]:
    """Return the command that makes wheels, under its name, where this environment has one.

    Its options say what to build, and go before those of the project's table.
    """
    home = next((home for home in _HOMES if _exists(home)), None)
    if home is None:
        return {}
    base: Any = importlib.import_module(home).bdist_wheel

    class BuildWheel(base):  # type: ignore[misc]
        """bdist_wheel with the tags that operators deserve: they hold no Python, so one wheel serves every version."""

        user_options: ClassVar = [*base.user_options, *_OPTIONS]
        boolean_options: ClassVar = [*base.boolean_options, "standalone"]

        def initialize_options(self) -> None:
            super().initialize_options()
            self.torch_target: str | None = None
            self.archs: str | None = None
            self.cuda: str | None = None
            self.standalone: bool | None = None

        def finalize_options(self) -> None:
            super().finalize_options()
            self.root_is_pure = False
            if operators.project is None:
                return
            with _setup_errors():
                if self.torch_target is not None:
                    target = parse_torch_target(self.torch_target, "--torch-target")
                    operators.project = replace(operators.project, torch_target=target)
                if self.archs is not None:
                    operators.project = replace(operators.project.with_gpu(), archs=self.archs)
                if self.cuda is not None:
                    cuda = parse_cuda_release(self.cuda, "--cuda")
                    operators.project = replace(operators.project.with_gpu(), cuda=cuda)
                if self.standalone is not None:
                    operators.project = replace(operators.project, standalone=bool(self.standalone))

        def get_tag(self) -> tuple[str, str, str]:
            python, abi, platform = super().get_tag()
            extensions = self.distribution.ext_modules or ()
            only_operators = all(isinstance(ext, OperatorExtension) for ext in extensions)
            return ("py3", "none", platform) if only_operators else (python, abi, platform)

        def run(self) -> None:
            super().run()
            standalone = operators.project is not None and operators.project.standalone
            with _setup_errors():
                for index, (command, python, file) in enumerate(self.distribution.dist_files):
                    if command == "bdist_wheel":
                        finished = finish_wheel(Path(file), standalone=standalone)
                        self.distribution.dist_files[index] = (command, python, str(finished))

    return {"bdist_wheel": BuildWheel}


@contextmanager
def _setup_errors() -> Iterator[None]:
    """Raise opsmith's errors as what setuptools prints without a traceback."""
    try:
        yield
    except OpsmithError as error:
        from setuptools.errors import SetupError

        raise SetupError(str(error)) from error


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package is there
        return False
