"""Builds LLTM by JIT, setuptools and CMake, each from nothing, and times it."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import opsmith
from opsmith.build.builders import BUILDERS, Request, build_group, require_builder
from opsmith.build.watcher import Watcher
from opsmith.demo.screen import Screen, Step
from opsmith.errors import BuildError, ToolchainError
from opsmith.spec.definition import Device, Group

__all__ = ["Build", "are_identical", "build_all", "build_one"]

_SOURCES = frozenset({".cpp", ".cu", ".cuh", ".h", ".py"})


@dataclass(frozen=True)
class Build:
    """One library: how it was built, in what time, and what came out; `left_out` says why there is none."""

    builder: str
    seconds: float = 0.0
    library: str = ""
    size_bytes: int = 0
    sha256: str = ""
    left_out: str | None = None


def build_all(group: Group, devices: Sequence[Device], folder: Path, screen: Screen) -> tuple[Build, ...]:
    """Build a group in each way into folders of its own below `folder`, which are emptied before.

    The JIT's store is the one that is set; it should be empty. A builder that is not installed is left out with a
    reason; every other failure is raised: CompileError, ToolchainError, StoreError, and BuildError if a source changes
    in between.
    """
    before = _digest_sources(group)
    builds = tuple(build_one(group, builder, devices, folder / builder, screen) for builder in BUILDERS)
    if _digest_sources(group) != before:
        raise BuildError("a source changed while the three builds ran, so they cannot be compared; run the demo again")
    return builds


def build_one(group: Group, builder: str, devices: Sequence[Device], folder: Path, screen: Screen) -> Build:
    """Build a group in one way and time it."""
    shutil.rmtree(folder, ignore_errors=True)
    request = Request(tuple(devices), output=folder.absolute())
    with screen.step(builder) as step:
        started = time.perf_counter()
        try:
            require_builder(builder)
            library = build_group(group, builder, request, _watch(step)).library
        except ToolchainError as error:
            if builder == "jit":
                raise  # no builder can do without what the JIT needs
            build = Build(builder, left_out=str(error))
        else:
            seconds = time.perf_counter() - started
            data = library.read_bytes()
            build = Build(builder, seconds, _shown(library), len(data), hashlib.sha256(data).hexdigest())
    screen.line(
        f"✓ {builder:<10}  {build.seconds:5.1f} s"
        if build.left_out is None
        else f"– {builder:<10}  left out: {build.left_out}"
    )
    return build


def are_identical(builds: Sequence[Build]) -> bool:
    """Whether all libraries have the same bytes."""
    return len({build.sha256 for build in builds if build.left_out is None}) == 1


def _digest_sources(group: Group) -> str:
    """Return a digest of the operators' folder and of the headers that come with opsmith."""
    digest = hashlib.sha256()
    package = Path(opsmith.__file__).parent
    for folder in (group.file.parent, package / "include", package / "ops/_gpu"):
        for file in sorted(folder.rglob("*")):
            if file.suffix in _SOURCES:
                digest.update(f"{file}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _watch(step: Step) -> Watcher:
    return Watcher(
        lambda plan: step.advance(0, len(plan.steps), ""),
        lambda progress: step.advance(progress.done, progress.total, progress.step),
    )
