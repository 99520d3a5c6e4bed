"""Writes an operator's sources for Hugging Face's kernel-builder: `opsmith hub`."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("hub")
@click.argument("path")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("hub"),
    show_default=True,
    help="The folder with build.toml.",
)
def command(path: str, folder: Path) -> None:
    """Write the binding, the kernels and the headers of PATH for Hugging Face's kernel-builder, and list them in build.toml.

    PATH is a module or a folder with operators. `opsmith new NAME --recipe kernels` makes the rest of the folder.
    """
    from opsmith.build.discover import discover
    from opsmith.errors import DefinitionError
    from opsmith.package.hub import write_hub

    groups = discover(path)
    if len(groups) != 1:
        modules = ", ".join(group.module for group in groups)
        raise DefinitionError(f"{path} declares operators in {modules}; name one of them, with a --folder of its own")
    write_hub(groups[0], folder)
    click.echo(f"{folder}/: binding, kernels and headers of {groups[0].module}")
