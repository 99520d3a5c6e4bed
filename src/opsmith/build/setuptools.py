"""How setuptools builds operators: a `build_ext` that runs the plan, and the hook that reads `[tool.opsmith]`.

Nothing here is imported unless setuptools is running already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext

from opsmith.build.artifact import Watcher, build_into
from opsmith.build.discover import discover
from opsmith.build.export import export_library, write_description
from opsmith.build.prebuilt import manifest_path
from opsmith.build.prepare import Prepared, prepare
from opsmith.build.project import Project, read_project
from opsmith.spec.definition import Definition

__all__ = ["BuildOperators", "OperatorExtension", "finalize_distribution_options", "run_build_ext"]


@dataclass(frozen=True)
class _Job:
    """One library to build, and the folder, relative to where packages are put, that it belongs into."""

    prepared: Prepared
    definitions: tuple[Definition, ...]
    folder: Path


class OperatorExtension(setuptools.Extension):
    """Stands in setuptools' list of extensions for operators; which libraries they make is known only when built."""

    def __init__(self, name: str, jobs: Callable[[], list[_Job]]) -> None:
        super().__init__(name, sources=[])
        self.jobs = jobs


class BuildOperators(build_ext):
    """setuptools' build_ext, which builds an OperatorExtension by its plan and everything else as ever."""

    watcher: Watcher = Watcher()

    def finalize_options(self) -> None:
        """Prepare as build_ext does, and begin a list of what is written."""
        super().finalize_options()
        self.written: list[str] = []

    def build_extension(self, ext: Any) -> None:
        """Build one extension."""
        if not isinstance(ext, OperatorExtension):
            super().build_extension(ext)
            return
        for job in ext.jobs():
            prepared = job.prepared
            scratch = Path(self.build_temp).absolute() / prepared.plan.extension.name
            scratch.mkdir(parents=True, exist_ok=True)
            self.announce(f"opsmith: building {prepared.plan.extension.name}", level=2)
            library = build_into(prepared.plan, scratch, jobs=self.parallel or None, watcher=self.watcher)
            manifest = write_description(prepared.plan, prepared.toolchain, prepared.target, scratch, job.definitions)
            root = prepared.plan.extension.root if self.inplace else Path(self.build_lib) / job.folder
            exported = export_library(library, root, manifest)
            self.written += [str(exported), str(manifest_path(exported))]

    def get_outputs(self) -> list[str]:
        """Return what was written; before the build that is not known."""
        return list(self.written)

    def get_output_mapping(self) -> dict[str, str]:
        """Return no mapping: an editable installation builds in place."""
        return {}

    def copy_extensions_to_source(self) -> None:
        """Copy nothing: an in-place build has put its libraries where they belong."""


def run_build_ext(prepared: Prepared, folder: Path, jobs: int | None, watcher: Watcher) -> Path:
    """Build a plan with setuptools in a folder, without a project, and return the library."""
    extension = OperatorExtension("operators", lambda: [_Job(prepared, (), Path())])
    distribution = setuptools.Distribution({"name": "operators", "ext_modules": [extension]})
    command = BuildOperators(distribution)
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.parallel = jobs
    command.watcher = watcher
    command.ensure_finalized()
    command.run()
    return folder / "temp" / prepared.plan.extension.name / prepared.plan.library


def finalize_distribution_options(distribution: Any) -> None:
    """Add the operators of a project whose pyproject.toml has [tool.opsmith]; setuptools calls this for every project."""
    project = read_project(Path.cwd() / "pyproject.toml")
    if project is None:
        return
    extension = OperatorExtension("opsmith operators", lambda: _jobs(project))
    distribution.ext_modules = [*(distribution.ext_modules or []), extension]
    distribution.cmdclass = {"build_ext": BuildOperators, "bdist_wheel": _wheel_command(), **distribution.cmdclass}


def _jobs(project: Project) -> list[_Job]:
    jobs = []
    for path in project.operators:
        for group in discover(path):
            devices = project.devices_for(group.definitions)
            prepared = prepare(
                group.module,
                group.file,
                group.definitions,
                devices,
                archs=project.archs,
                torch_target=project.torch_target,
                strict=True,
            )
            parts = group.module.split(".")
            folder = Path(*parts) if group.file.name == "__init__.py" else Path(*parts[:-1])
            jobs.append(_Job(prepared, group.definitions, folder))
    return jobs


def _wheel_command() -> type[Any]:
    from setuptools.command.bdist_wheel import bdist_wheel

    class BuildWheel(bdist_wheel):
        """bdist_wheel with the tag that the libraries deserve: they hold no Python, so one wheel serves every version."""

        def finalize_options(self) -> None:
            super().finalize_options()
            self.root_is_pure = False

        def get_tag(self) -> tuple[str, str, str]:
            python, abi, platform = super().get_tag()
            only_operators = all(isinstance(ext, OperatorExtension) for ext in self.distribution.ext_modules or [])
            return ("py3", "none", platform) if only_operators else (python, abi, platform)

    return BuildWheel
