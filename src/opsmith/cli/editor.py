"""Writes compile_commands.json and type stubs, which editors need: `opsmith editor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opsmith.cli.completion import complete_path
from opsmith.errors import DefinitionError

if TYPE_CHECKING:
    from opsmith.build.compile_commands import Entry
    from opsmith.spec.definition import Group
    from opsmith.store import Store

__all__ = ["command"]


@click.command("editor")
@click.argument("path", shell_complete=complete_path)
@click.option(
    "--commands",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build"),
    show_default=True,
    help="Folder for compile_commands.json; clangd looks in every folder above a source and its `build`.",
)
@click.option(
    "--typings",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("typings"),
    show_default=True,
    help="Folder for the stubs of torch.ops; Pyright looks in `typings`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(path: str, commands: Path, typings: Path, as_json: bool) -> None:
    """Write compile_commands.json and type stubs for PATH.

    PATH is a module, a file or a folder with operators, which are not built; or C++ and CUDA sources, or a folder of
    them, that load() or load_inline() has built before.
    """
    from opsmith.build.editor import known_entries, publish_entries
    from opsmith.build.typings import add_typings, definition_schemas
    from opsmith.store import Store, default_root

    store = Store(default_root())
    groups, refusal = _groups(path)
    source = Path(path).resolve()
    entries = [entry for group in groups for entry in _entries(group, store)]
    entries += list(known_entries(store, source)) if source.exists() else []
    if not entries:
        raise refusal or DefinitionError(f"nothing is known about {path}")
    database = publish_entries(entries, commands.absolute(), store)
    definitions = [definition for group in groups for definition in group.definitions]
    stubs = add_typings(definition_schemas(definitions), typings.absolute()) if definitions else []
    if as_json:
        files = [str(entry["file"]) for entry in entries]
        click.echo(json.dumps({"database": str(database), "files": files, "stubs": list(map(str, stubs))}, indent=2))
        return
    click.echo(f"  {database}    {len(entries)} commands")
    if stubs:
        names = ", ".join(sorted({definition.qualified_name.partition("::")[0] for definition in definitions}))
        click.echo(f"  {stubs[0].parent}    torch.ops: {names}")


def _groups(path: str) -> tuple[tuple[Group, ...], DefinitionError | None]:
    from opsmith.build.discover import discover

    try:
        return discover(path), None
    except DefinitionError as error:
        return (), DefinitionError(
            f"{error}. load() and load_inline() have not built any source there with this store either"
        )


def _entries(group: Group, store: Store) -> list[Entry]:
    from opsmith.build.devices import wanted_devices
    from opsmith.build.editor import write_editor_files
    from opsmith.build.prepare import prepare

    prepared = prepare(group, wanted_devices(group.definitions))
    return write_editor_files(prepared.plan, store)
