"""Explains the errors in a log of any build or load, and how to fix them: `opsmith explain-error`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO

import click

from opsmith._printable import printable
from opsmith._streams import is_terminal

__all__ = ["command"]

# What is in memory at a time.
_PIECE_CHARACTERS = 1 << 20
# Logs of 500 MB take half of it. A text made to be slow, in which every line almost fits many patterns, takes longer.
_MOST_S = 50.0


@click.command("explain-error")
@click.argument("file", type=click.File("r", encoding="utf-8", errors="replace"), default="-")
@click.option("--list", "lists", is_flag=True, help="Print the errors that are known, and read nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: TextIO, lists: bool, as_json: bool) -> None:
    """Read a log from FILE or stdin, and print the causes and remedies of its errors.

    The log may come from any program: pip, ninja, a compiler, Python. The exit code is 1 if no error in it is known.
    """
    from opsmith.catalogue import explain
    from opsmith.toolchain.facts import demangle, gather_facts

    if lists:
        _show_known(as_json)
        return
    if is_terminal(file):
        click.echo("paste the log, then press Ctrl-D", err=True)
    found = explain(_pieces(file), gather_facts(with_cuda=True), demangle=demangle)
    if as_json:
        click.echo(json.dumps([asdict(explanation) for explanation in found], indent=2))
    for explanation in () if as_json else found:
        click.echo(f"{click.style(explanation.title, bold=True)}  [{explanation.id}]")
        click.echo(f"    {printable(explanation.line)}")
        click.echo(f"  cause   {printable(explanation.cause, lines=True)}")
        click.echo(f"  remedy  {printable(explanation.remedy, lines=True)}\n")
    if not found:
        click.echo("no known error was found; `opsmith explain-error --list` has those that are known", err=True)
        sys.exit(1)


def _show_known(as_json: bool) -> None:
    """Print the errors of the catalogue by group."""
    from opsmith.catalogue import GROUPS

    if as_json:
        known = [{"id": one.id, "title": one.title, "group": group.title} for group in GROUPS for one in group.entries]
        click.echo(json.dumps(known, indent=2))
        return
    for group in GROUPS:
        click.echo(click.style(group.title, bold=True))
        for one in group.entries:
            click.echo(f"  {one.title}  [{one.id}]")


def _pieces(file: TextIO) -> Iterator[str]:
    """Yield what a file has, until reading and explaining it have taken too long."""
    spent_s, read = 0.0, 0
    while piece := file.read(_PIECE_CHARACTERS):
        if len(piece) == _PIECE_CHARACTERS and not piece.strip("\0"):
            click.echo(f"stopped after {read / 1e6:.0f} MB, where there is no text but zero bytes", err=True)
            return
        if spent_s > _MOST_S:
            click.echo(
                f"read only the first {read / 1e6:.0f} MB, which took {spent_s:.0f} s; pass the part around the error, "
                "such as `tail -c 10M FILE | opsmith explain-error`",
                err=True,
            )
            return
        read += len(piece)
        start = time.monotonic()
        yield piece
        # Waiting for a program that still writes its log does not count.
        spent_s += time.monotonic() - start
