"""Prints the prototypes that kernels must have, or writes whole files to start from: `opsmith stub`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opsmith.cli.completion import complete_path

if TYPE_CHECKING:
    from opsmith.spec.definition import Definition, Device, Group

__all__ = ["command"]


@click.command("stub")
@click.argument("path", shell_complete=complete_path)
@click.option("--write", is_flag=True, help="Write a skeleton for every kernel file that does not exist yet.")
def command(path: str, write: bool) -> None:
    """Print the prototype of every kernel that PATH (a module, a file or a folder) declares."""
    from opsmith.build.discover import discover
    from opsmith.codegen.prototype import prototype, skeleton, struct_definitions

    for group in discover(path):
        for file, members in _files(group).items():
            if not write:
                is_python = members[0][0].kernels[members[0][1]].style in ("triton", "cute")
                click.echo(f"{'#' if is_python else '//'} {file}")
                for struct in dict.fromkeys(
                    text for each, device in members for text in struct_definitions([each], device)
                ):
                    click.echo(struct)
                for definition, device in members:
                    click.echo(f"{prototype(definition, device)}{':' if is_python else ';'}")
                click.echo()
            elif file.exists():
                click.echo(f"{file} already exists; left unchanged")
            else:
                device = members[0][1]
                # One native file may serve several devices; it has each function once.
                definitions = list(dict.fromkeys(definition for definition, _ in members))
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(skeleton(definitions, device), encoding="utf-8")
                click.echo(f"{file} written: {', '.join(definition.name for definition in definitions)}")


def _files(group: Group) -> dict[Path, list[tuple[Definition, Device]]]:
    from opsmith.spec.definition import DEVICES

    files: dict[Path, list[tuple[Definition, Device]]] = {}
    for device in DEVICES:
        for definition in group.definitions:
            if (kernel := definition.kernels.get(device)) is not None:
                files.setdefault(kernel.sources[0], []).append((definition, device))
    return files
