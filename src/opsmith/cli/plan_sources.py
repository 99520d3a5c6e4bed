"""Writes a build plan of existing sources for opsmith_add_extension, which calls it: `opsmith plan-sources`."""

from __future__ import annotations

import re
from pathlib import Path

import click

__all__ = ["command"]

# What makes a library one that Python imports.
_PYTHON_MODULE = re.compile(r"\b(?:PYBIND11_MODULE|PyInit_\w+|PyMODINIT_FUNC)\b")


@click.command("plan-sources", hidden=True)
@click.option("--source-file", "files", multiple=True, required=True, type=click.Path(path_type=Path))
@click.option("--target", required=True, help="Name of the CMake target, and of the library.")
@click.option("--source", required=True, type=click.Path(path_type=Path), help="Folder of the CMakeLists.txt.")
@click.option("--binary", required=True, type=click.Path(path_type=Path), help="Folder in which CMake builds.")
@click.option("--kind", type=click.Choice(["auto", "module", "library"]), default="auto")
@click.option("--cxx-flag", "cxx_flags", multiple=True)
@click.option("--gpu-flag", "gpu_flags", multiple=True)
@click.option("--link-flag", "link_flags", multiple=True)
@click.option("--include-dir", "include_dirs", multiple=True, type=click.Path(path_type=Path))
@click.option("--arch", "archs")
def command(
    files: tuple[Path, ...],
    target: str,
    source: Path,
    binary: Path,
    kind: str,
    cxx_flags: tuple[str, ...],
    gpu_flags: tuple[str, ...],
    link_flags: tuple[str, ...],
    include_dirs: tuple[Path, ...],
    archs: str | None,
) -> None:
    """Write the CMakeLists.txt that builds existing sources, and beside it the library's name."""
    from opsmith.build.cmake import write_answer, write_cmake_project
    from opsmith.build.existing import assemble_sources, file_sources, prepare_existing

    extension = assemble_sources(
        target,
        file_sources(files),
        library=_library(target, kind, files),
        include_dirs=include_dirs,
        cxx_flags=cxx_flags,
        gpu_flags=gpu_flags,
        link_flags=link_flags,
    )
    prepared = prepare_existing(extension, archs=archs)
    write_cmake_project(prepared.plan, target, source, binary)
    # The binary fits one torch: another one needs another plan.
    write_answer(source, prepared.plan, [prepared.toolchain.torch.root / "version.py"])


def _library(target: str, kind: str, files: tuple[Path, ...]) -> str:
    from opsmith.toolchain import find_python_headers

    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    if kind == "module" or (kind == "auto" and any(map(_PYTHON_MODULE.search, texts))):
        return f"{target}{find_python_headers().extension_suffix}"
    return f"{target}.so"
