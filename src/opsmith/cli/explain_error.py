"""Explains the errors in a log of any build or load, and how to fix them: `opsmith explain-error`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TextIO

import click

from opsmith._printable import printable

__all__ = ["command"]


@click.command("explain-error")
@click.argument("file", type=click.File("r", errors="replace"), default="-")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: TextIO, as_json: bool) -> None:
    """Read a log from FILE or stdin, and print the causes and remedies of its errors.

    The log may come from any program: pip, ninja, a compiler, Python. The exit code is 1 if no error in it is known.
    """
    from opsmith.catalogue import explain
    from opsmith.toolchain.facts import demangle, gather_facts

    if file.isatty():
        click.echo("paste the log, then press Ctrl-D", err=True)
    found = explain(file.read(), gather_facts(with_cuda=True), demangle=demangle)
    if as_json:
        click.echo(json.dumps([asdict(explanation) for explanation in found], indent=2))
    for explanation in () if as_json else found:
        click.echo(f"{click.style(explanation.title, bold=True)}  [{explanation.id}]")
        click.echo(f"    {printable(explanation.line)}")
        click.echo(f"  cause   {printable(explanation.cause, lines=True)}")
        click.echo(f"  remedy  {printable(explanation.remedy, lines=True)}\n")
    if not found:
        click.echo("no known error in this log; docs/errors.md lists the known ones", err=True)
        sys.exit(1)
