"""Shows and cleans the store, and explains why something is built again: `opsmith cache`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from opsmith._printable import printable
from opsmith.cli.cache_share import key_group, pull_command, push_command
from opsmith.cli.completion import complete_path
from opsmith.errors import ArgumentError, StoreError
from opsmith.store import Artifact, Store, default_root
from opsmith.store.select import select_artifacts
from opsmith.store.units import parse_age_s, parse_size, show_age, show_size

__all__ = ["command"]

_DIGITS = 12


@click.group("cache")
def command() -> None:
    """Show and clean the store of built libraries.

    OPSMITH_CACHE_DIR sets its folder, OPSMITH_CACHE_SIZE its maximum size ("5 GB" by default; "0" for no limit).
    """


@command.command("where")
def where() -> None:
    """Print the store's folder."""
    click.echo(default_root())


@command.command("ls")
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def ls(names: tuple[str, ...], as_json: bool) -> None:
    """List the artefacts with one of NAMES, or all of them, most recently used first."""
    from opsmith.store.usage import last_used_s

    store = Store(default_root())
    artifacts = sorted(select_artifacts(store, names), key=lambda item: -last_used_s(item.folder))
    if as_json:
        click.echo(json.dumps([_describe(item) for item in artifacts], indent=2))
        return
    rows = [_row(item) for item in artifacts]
    if rows:
        click.echo(_table([("name", "kind", "devices", "size", "built", "used", "torch", "key"), *rows]))
    total = sum(item.manifest.size_bytes for item in artifacts)
    click.echo(f"{len(rows)} artefact{'' if len(rows) == 1 else 's'}, {show_size(total)}, in {store.root}")


@command.command("explain")
@click.argument("path", shell_complete=complete_path)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def explain(path: str, as_json: bool) -> None:
    """Show whether the next build of PATH will be found in the store, and if not, what has changed.

    PATH is a module of operators, a file or a folder, as for `opsmith build`. If it is the name of an extension built by
    `load` or `load_inline`, show how its last build differs from the one before.
    """
    from opsmith.build.explain import explain_builds

    answers = explain_builds(path, Store(default_root()))
    if as_json:
        click.echo(json.dumps([answer.to_dict() for answer in answers], indent=2))
        return
    for answer in answers:
        title = f"{answer.name}: " if len(answers) > 1 else ""
        click.echo(f"  {title}{answer.sentence}")


@command.command("prune")
@click.option("--max-size", help="Remove the least recently used artefacts down to this size, such as '2 GB'.")
@click.option("--older-than", help="Remove artefacts not used for this long, such as '30d'.")
@click.option("--all", "everything", is_flag=True, help="Remove everything, including artefacts just used.")
def prune_command(max_size: str | None, older_than: str | None, everything: bool) -> None:
    """Remove artefacts. Without an option, down to OPSMITH_CACHE_SIZE.

    Artefacts used within the last 15 minutes stay, because a process may be about to load them; only --all removes them.
    """
    from opsmith.store.eviction import prune, size_limit

    store = Store(default_root())
    try:
        max_bytes = parse_size(max_size, "--max-size") if max_size else None
        older_than_s = parse_age_s(older_than, "--older-than") if older_than else None
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    if everything:
        max_bytes = 0
    elif max_size is None and older_than is None:
        max_bytes = size_limit()
    pruned = prune(store.layout, max_bytes=max_bytes, older_than_s=older_than_s, force=everything)
    freed = sum(entry.size_bytes for entry in pruned.removed)
    spared = f"; kept {len(pruned.spared)} used within the last 15 minutes" if pruned.spared else ""
    click.echo(f"removed {len(pruned.removed)} ({show_size(freed)}), {show_size(pruned.left_bytes)} left{spared}")


@command.command("verify")
@click.option("--fix", is_flag=True, help="Remove damaged artefacts; the next build recreates them.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def verify(fix: bool, as_json: bool) -> None:
    """Compare every byte of the store with the digests of its manifests.

    The exit code is 1 where something is damaged, unless --fix removes it.
    """
    from opsmith.store.verify import remove_damaged, verify_store

    store = Store(default_root())
    checked = list(verify_store(store))
    damaged = [item for item in checked if item.damage is not None]
    if fix:
        for item in damaged:
            remove_damaged(store, item)
    if as_json:
        found = [{"key": item.key, "name": item.name, "damage": item.damage, "removed": fix} for item in damaged]
        click.echo(json.dumps({"checked": len(checked), "damaged": found}, indent=2))
    else:
        for item in damaged:
            damage = printable(item.damage or "")
            click.echo(f"{item.name or '?'}  {item.key[:_DIGITS]}  {damage}{'; removed' if fix else ''}")
        well = "all match their manifests" if not damaged else f"{len(damaged)} damaged"
        click.echo(f"{len(checked)} checked, {well}")
        if damaged and not fix:
            click.echo("`opsmith cache verify --fix` removes damaged artefacts")
    if damaged and not fix:
        sys.exit(1)


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1)
def export_command(file: Path, names: tuple[str, ...]) -> None:
    """Export the artefacts with one of NAMES, or all of them, into FILE, for another machine."""
    from opsmith.store.archive import export_archive

    store = Store(default_root())
    artifacts = _some(select_artifacts(store, names), names)
    export_archive(store, file, artifacts)
    click.echo(f"{file}: {len(artifacts)} artefacts, {show_size(file.stat().st_size)}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def import_command(file: Path) -> None:
    """Verify the artefacts of FILE and add them to the store; existing ones are kept.

    An artefact is code: import only files of people whose code you would run.
    """
    from opsmith.store.archive import import_archive

    imported = import_archive(Store(default_root()), file)
    click.echo(f"{len(imported.added)} added, {len(imported.present)} already present")


command.add_command(key_group)
command.add_command(push_command)
command.add_command(pull_command)


def _some(artifacts: Sequence[Artifact], names: Sequence[str]) -> Sequence[Artifact]:
    if not artifacts:
        what = f"nothing named {', '.join(names)}" if names else "nothing"
        raise StoreError(f"the store {default_root()} holds {what}; `opsmith cache ls` lists its contents")
    return artifacts


def _row(item: Artifact) -> tuple[str, ...]:
    from opsmith.store.usage import last_used_s
    from opsmith.store.wording import tell_time

    manifest = item.manifest
    devices = ", ".join((*manifest.devices, *manifest.archs)) or "-"
    used = show_age(time.time() - last_used_s(item.folder))
    size, torch = show_size(manifest.size_bytes), manifest.torch_version or "any"
    return (manifest.name, manifest.kind, devices, size, tell_time(manifest), used, torch, item.key[:_DIGITS])


def _describe(item: Artifact) -> dict[str, object]:
    from opsmith.store.usage import last_used_s

    manifest = item.manifest
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "devices": list(manifest.devices),
        "archs": list(manifest.archs),
        "size_bytes": manifest.size_bytes,
        "created": manifest.created,
        "last_used": last_used_s(item.folder),
        "torch": manifest.torch_version,
        "toolchain": dict(manifest.toolchain),
        "opsmith": manifest.opsmith_version,
        "key": item.key,
        "library": str(item.library),
    }


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
