"""Builds declared operators with setuptools: a `build_ext` that runs plans.

Nothing here is imported unless setuptools is running already.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError as SetuptoolsCompileError

from opsmith.build.announce import step_lines
from opsmith.build.artifact import build_into
from opsmith.build.diagnose import explain_signature
from opsmith.build.discover import discover
from opsmith.build.export import export_library, write_description
from opsmith.build.prebuilt import manifest_path
from opsmith.build.prepare import Prepared, prepare
from opsmith.build.project import Project
from opsmith.build.watcher import Watcher
from opsmith.errors import BuildError, DefinitionError, OpsmithError
from opsmith.spec.definition import Definition

__all__ = ["BuildOperators", "OperatorExtension", "add_operators", "run_build_ext"]

# What kernels are written in: it goes into the wheel, so that an operator can be built on the machine it is installed on,
# for a device that the wheel's library does not serve.
_KERNEL_FILES = tuple(f"**/*.{suffix}" for suffix in ("c", "cc", "cpp", "cu", "cuh", "h", "hip", "hpp", "inl"))


@dataclass(frozen=True)
class _Job:
    """One library to build, and the folder, relative to where packages are put, that it belongs into."""

    prepared: Prepared
    definitions: tuple[Definition, ...]
    folder: Path


class OperatorExtension(setuptools.Extension):
    """Stands in setuptools' list of extensions for operators; which libraries they make is known only when built."""

    def __init__(self, name: str, jobs: Callable[[Any], list[_Job]]) -> None:
        super().__init__(name, sources=[])
        self.jobs = jobs
        self.project: Project | None = None


class BuildOperators(build_ext):
    """setuptools' build_ext, which builds by plan what opsmith knows, and everything else as ever."""

    watcher: Watcher = Watcher()
    # opsmith's own command line says what it builds, and may have JSON on stdout.
    quiet_start: bool = False

    def finalize_options(self) -> None:
        """Prepare as build_ext does, and begin a list of what is written: each file, and its place in the sources."""
        super().finalize_options()
        self.written: dict[str, str] = {}
        # With -v setuptools shows every library's debug messages, and those on locks are nobody's business.
        logging.getLogger("filelock").setLevel(logging.INFO)

    def build_extension(self, ext: Any) -> None:
        """Build one extension; what fails ends setuptools with opsmith's message and no traceback."""
        try:
            if isinstance(ext, OperatorExtension):
                for job in ext.jobs(self.distribution):
                    self._build_operators(job)
            else:
                super().build_extension(ext)
        except OpsmithError as error:
            raise SetuptoolsCompileError(str(error)) from error

    def _build_operators(self, job: _Job) -> None:
        prepared = job.prepared
        try:
            scratch, library = self._run(prepared, prepared.plan.extension.name)
        except BuildError as error:
            raise explain_signature(error, list(job.definitions)) from None
        manifest = write_description(prepared.plan, prepared.toolchain, prepared.target, scratch, job.definitions)
        exported = export_library(library, Path(self.build_lib) / job.folder, manifest)
        for file in (exported, manifest_path(exported)):
            self.written[str(file)] = str(prepared.plan.extension.root / file.name)

    def _run(self, prepared: Prepared, name: str) -> tuple[Path, Path]:
        scratch = Path(self.build_temp).absolute() / name
        # What an earlier build left was made with another torch, or from a file with a later time stamp.
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if not self.quiet_start:
            print(f"opsmith: building {name} with {prepared.toolchain.torch.identity}", flush=True)
        watcher = self.watcher if self.quiet_start else self._step_lines(name)
        return scratch, build_into(
            prepared.plan,
            prepared.toolchain,
            prepared.target,
            scratch,
            jobs=self._most_jobs(),
            watcher=watcher,
            is_lasting=False,
            reuse=not self.force,
        )

    def _most_jobs(self) -> int | None:
        """Return how many compilers may run at once as the command line says, or None if it does not."""
        # True is setuptools' word for all cores; it equals 1, which a user may ask for.
        return None if self.parallel is True or not self.parallel else int(self.parallel)

    def _step_lines(self, name: str) -> Watcher:
        """Return the watcher that prints a build's steps, and with -v every command line."""
        # Without -v the option is a bool, and distutils counts it from either 0 or 1.
        given = self.distribution.get_option_dict("build_ext").get("verbose", ("", 0))[1]
        return step_lines(name, sys.stdout, commands=int(self.verbose) > 1 or int(given) > 0 or _is_backend())

    def get_outputs(self) -> list[str]:
        """Return what is built; for operators that is known only after the build."""
        return [*self._of_others(super().get_outputs), *self.written]

    def get_output_mapping(self) -> dict[str, str]:
        """Return where each file of the build lies in the sources, for an editable installation."""
        own = self.written if self.inplace else {}
        mapping = self._of_others(lambda: list(super(BuildOperators, self).get_output_mapping().items()))
        return {**dict(mapping), **own}

    def copy_extensions_to_source(self) -> None:
        """Put what was built into the source tree, for an editable installation."""
        self._of_others(lambda: super(BuildOperators, self).copy_extensions_to_source() or [])
        for built, target in self.written.items():
            export = Path(target)
            export.unlink(missing_ok=True)
            shutil.copy2(built, export)

    def _of_others(self, ask: Callable[[], list[Any]]) -> list[Any]:
        """Ask setuptools about all extensions but those that stand for operators, whose names are not modules."""
        everything = self.extensions
        self.extensions = [ext for ext in everything or () if not isinstance(ext, OperatorExtension)]
        try:
            return ask()
        finally:
            self.extensions = everything


def _is_backend() -> bool:
    """Tell whether pip or another frontend has started this build: with its own -v it shows all that is printed."""
    return "_PYPROJECT_HOOKS_BUILD_BACKEND" in os.environ


def run_build_ext(prepared: Prepared, folder: Path, jobs: int | None, watcher: Watcher) -> Path:
    """Build a plan with setuptools in a folder, without a project, and return the library."""
    extension = OperatorExtension("operators", lambda distribution: [_Job(prepared, (), Path())])
    distribution = setuptools.Distribution({"name": "operators", "ext_modules": [extension]})
    command = BuildOperators(distribution)
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.parallel = jobs
    command.watcher = watcher
    command.quiet_start = True
    command.ensure_finalized()
    try:
        command.run()
    except SetuptoolsCompileError as error:
        raise error.__cause__ or error from None
    return folder / "temp" / prepared.plan.extension.name / prepared.plan.library


def add_operators(distribution: Any, project: Project, root: Path) -> OperatorExtension:
    """Make setuptools build and install a project's operators, and return what stands for them.

    `root` is the project's folder. What is built is the extension's `project`, which another command may replace.
    """
    extension = OperatorExtension("opsmith operators", lambda dist: _jobs(extension.project or project, dist, root))
    extension.project = project
    distribution.ext_modules = [*(distribution.ext_modules or []), extension]
    commands = {"build_ext": BuildOperators, "build_py": _python_command(project)}
    distribution.cmdclass = {**commands, **distribution.cmdclass}
    return extension


def _jobs(project: Project, distribution: Any, root: Path) -> list[_Job]:
    # A build backend has no project folder on sys.path, and an older installation of the project may be there.
    packages = root / (distribution.package_dir or {}).get("", "")
    sys.path.insert(0, str(packages))
    try:
        return [job for path in project.operators for job in _jobs_of(path, project, packages)]
    finally:
        sys.path.remove(str(packages))


def _jobs_of(path: str, project: Project, packages: Path) -> list[_Job]:
    jobs = []
    for group in discover(path):
        if not group.file.resolve().is_relative_to(packages.resolve()):
            raise DefinitionError(
                f"[tool.opsmith] names {path}, but Python finds it in {group.file}, not in {packages}. List the modules of "
                "this project there"
            )
        devices = project.devices_for(group.definitions)
        prepared = prepare(
            group, devices, archs=project.archs, cuda=project.cuda, torch_target=project.torch_target, strict=True
        )
        parts = group.module.split(".")
        folder = Path(*parts) if group.file.name == "__init__.py" else Path(*parts[:-1])
        jobs.append(_Job(prepared, group.definitions, folder))
    return jobs


def _python_command(project: Project) -> type[Any]:
    packages = tuple(Path(path).stem if "/" in path else path.partition(".")[0] for path in project.operators)

    class BuildPython(build_py):
        """build_py that takes the kernels' sources along."""

        def finalize_options(self) -> None:
            super().finalize_options()
            data = {name: list(patterns) for name, patterns in self.package_data.items()}
            for package in packages:
                data[package] = [*data.get(package, ()), *_KERNEL_FILES]
            self.package_data = data

    return BuildPython
