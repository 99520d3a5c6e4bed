"""Writes a build plan for find_package(opsmith), which calls it: `opsmith plan`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from opsmith.cli.completion import complete_path
from opsmith.errors import DefinitionError

__all__ = ["command"]


@click.command("plan", hidden=True)
@click.argument("path", shell_complete=complete_path)
@click.option("--target", required=True, help="Name of the CMake target.")
@click.option("--source", required=True, type=click.Path(path_type=Path), help="Folder of the CMakeLists.txt.")
@click.option("--binary", required=True, type=click.Path(path_type=Path), help="Folder in which CMake builds.")
@click.option("--device", "devices", multiple=True)
@click.option("--arch", "archs")
@click.option("--torch-target", "torch_target")
@click.option("--from", "start", type=click.Path(path_type=Path), help="Folder that PATH is relative to.")
@click.option("--describe", is_flag=True, help="Write the library's description instead, after the build.")
def command(
    path: str,
    target: str,
    source: Path,
    binary: Path,
    devices: tuple[str, ...],
    archs: str | None,
    torch_target: str | None,
    start: Path | None,
    describe: bool,
) -> None:
    """Write the CMakeLists.txt that builds the operators of PATH (one module), and beside it the library's name."""
    from opsmith.build.cmake import write_answer, write_cmake_project
    from opsmith.build.devices import wanted_devices
    from opsmith.build.discover import discover
    from opsmith.build.export import write_description
    from opsmith.build.plan import TORCH_TARGET
    from opsmith.build.prebuilt import manifest_path
    from opsmith.build.prepare import prepare
    from opsmith.build.project import parse_devices, parse_torch_target

    if start is not None:
        os.chdir(start)
        sys.path.insert(0, str(start))
    groups = discover(path)
    if len(groups) != 1:
        modules = ", ".join(group.module for group in groups)
        raise DefinitionError(f"{path} declares operators in {modules}; give each its own CMake target")
    chosen = parse_devices(devices, "DEVICES") if devices else wanted_devices(groups[0].definitions)
    oldest = parse_torch_target(torch_target, "TORCH_TARGET") if torch_target else TORCH_TARGET
    prepared = prepare(groups[0], chosen, archs=archs, torch_target=oldest, strict=True)
    if describe:
        manifest = write_description(prepared.plan, prepared.toolchain, prepared.target, binary, groups[0].definitions)
        manifest_path(binary / prepared.plan.library).write_text(manifest.to_json(), encoding="utf-8")
        return
    # CMake runs a build's commands in the binary folder, where no module is found.
    again = [sys.executable, "-m", "opsmith", *sys.argv[1:], "--from", str(Path.cwd()), "--describe"]
    write_cmake_project(prepared.plan, target, source, binary, again)
    # A changed definition needs another plan, and so does another torch.
    depends = [*prepared.plan.extension.root.glob("*.py"), prepared.toolchain.torch.root / "version.py"]
    write_answer(source, prepared.plan, depends)
