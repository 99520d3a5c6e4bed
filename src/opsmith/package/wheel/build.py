"""Builds a project's wheel with the project's own backend in this environment, finishes it, and audits what comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from opsmith.build.export import replace_file
from opsmith.build.project import read_project, read_table
from opsmith.errors import ArgumentError, BuildError, ToolchainError
from opsmith.package.audit.api import audit
from opsmith.package.audit.result import Audit
from opsmith.package.wheel.finish import finish_wheel, is_finished
from opsmith.toolchain.archs import split_archs

if TYPE_CHECKING:
    from build import ProjectBuilder

__all__ = ["BuiltWheel", "WheelRequest", "build_wheel"]

_T = TypeVar("_T")
_SETUPTOOLS = "setuptools.build_meta"
_LAST_LINES = 40
# What opsmith's own part of a build prints: the others' is shown where they fail.
_OWN = ("opsmith ", "opsmith:")


@dataclass(frozen=True)
class WheelRequest:
    """What `opsmith wheel` is asked for: the project's folder, where the wheel goes, and what it is built for.

    `torch_target` ("2.10"), `archs` ("8.0;9.0+PTX") and `standalone` go before the project's own; `cuda` ("12") is the CUDA
    whose nvcc compiles; `against` is the wheel of the release before.
    """

    project: Path
    output: Path = Path("dist")
    torch_target: str | None = None
    archs: str | None = None
    against: Path | None = None
    standalone: bool = False
    cuda: str | None = None


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel, what the audit says of it, and how long it took to build."""

    path: Path
    audit: Audit
    seconds: float = field(compare=False)


def build_wheel(request: WheelRequest, tell: Callable[[str], None]) -> BuiltWheel:
    """Build, finish and audit a wheel; `tell` gets a line for each step of the compilers.

    Raises ArgumentError if the folder is not a project or its backend does not take the options, ToolchainError if something
    is not installed, and BuildError if the build fails or the wheel has no operators.
    """
    started = time.perf_counter()
    builder = _builder(request.project, tell)
    settings = _settings(request)
    with tempfile.TemporaryDirectory(prefix="opsmith-wheel-") as folder:
        built = Path(_run(lambda: builder.build("wheel", folder, settings)))
        if not is_finished(built):
            built = finish_wheel(built, standalone=_is_standalone(request))
        found = audit(built, against=request.against, archs=split_archs(request.archs or ""), cuda=request.cuda)
        if not any(library.manifest for library in found.facts.libraries):
            raise BuildError(
                f"{built.name} has no operators: name their modules in pyproject.toml,\n\n[tool.opsmith]\n"
                'operators = ["MODULE"]\n'
            )
        request.output.mkdir(parents=True, exist_ok=True)
        target = request.output / built.name
        replace_file(target, built.read_bytes(), mode=0o644)
    return BuiltWheel(target, found, time.perf_counter() - started)


def _builder(project: Path, tell: Callable[[str], None]) -> ProjectBuilder:
    if not (project / "pyproject.toml").is_file():
        raise ArgumentError(f"{project} has no pyproject.toml: name the folder of a project")
    try:
        from build import BuildException, ProjectBuilder, check_dependency
    except ImportError:
        raise ToolchainError('opsmith wheel needs the package build: pip install "opsmith[wheel]"') from None
    try:
        builder = ProjectBuilder(project, sys.executable, _Runner(tell))
    except BuildException as error:
        raise BuildError(f"{project}: {error}") from error
    # What the project names comes first: without it the backend cannot be asked what else it needs.
    _refuse_missing(chain for name in builder.build_system_requires for chain in check_dependency(name))
    _refuse_missing(_run(lambda: builder.check_dependencies("wheel")))
    return builder


def _refuse_missing(chains: Iterable[tuple[str, ...]]) -> None:
    if missing := sorted({chain[0] for chain in chains}):
        listed = " ".join(f"'{name}'" for name in missing)
        raise ToolchainError(f"the project's backend needs what is not installed: pip install {listed}")


def _settings(request: WheelRequest) -> dict[str, list[str]]:
    """Return the options as the backend takes them."""
    given = {"--torch-target": request.torch_target, "--archs": request.archs, "--cuda": request.cuda}
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    system = read_table(request.project / "pyproject.toml", "build-system") or {}
    backend = system.get("build-backend", _SETUPTOOLS)
    if backend.startswith(_SETUPTOOLS):
        options += ["--standalone"] if request.standalone else []
    elif options:  # what makes a wheel standalone is done to any backend's
        raise ArgumentError(
            f"{' and '.join(option.partition('=')[0] for option in options)} cannot be given to the backend {backend}: "
            "write it in the project, as ARCHS and TORCH_TARGET of opsmith_add_operators in CMakeLists.txt"
        )
    return {"--build-option": options} if options else {}


def _is_standalone(request: WheelRequest) -> bool:
    project = read_project(request.project / "pyproject.toml")
    return request.standalone or (project is not None and project.standalone)


def _run(ask: Callable[[], _T]) -> _T:
    """Ask the backend; raises BuildError with the end of what it printed if it fails."""
    from build import BuildBackendException

    try:
        return ask()
    except BuildBackendException as error:
        failed = error.exception
        output = failed.output if isinstance(failed, subprocess.CalledProcessError) else ""
        lines = (output or str(failed)).strip().splitlines()
        raise BuildError("\n".join(["the wheel cannot be built:", *lines[-_LAST_LINES:]])) from None


class _Runner:
    """Runs a backend's hook, as `build` asks: shows opsmith's lines while it works, and keeps all for an error."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        lines: list[str] = []
        environment = {**os.environ, **(extra_environ or {})}
        with subprocess.Popen(
            list(cmd), cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line.startswith(_OWN):
                    self._tell(line.rstrip())
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(cmd), "".join(lines))
