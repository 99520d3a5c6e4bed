"""Shows what this machine has, what is broken, and the command that fixes it: `opsmith doctor`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from opsmith.doctor.examine import examine
from opsmith.doctor.finding import Status
from opsmith.doctor.screen import show

__all__ = ["command"]

_COLOURS: dict[Status, str] = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@click.option("--try", "with_build", is_flag=True, help="Also build a small operator, and call it where it can run.")
@click.option("-v", "--verbose", is_flag=True, help="Show more about what works: paths, versions.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(with_build: bool, verbose: bool, as_json: bool) -> None:
    """Check compilers, CUDA, torch, GPU, cache and environment; exit with 1 if something is broken."""
    findings = examine(with_build=with_build)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        for line in show(findings, details=verbose, encoding=encoding, style=_style):
            click.echo(line)
    if any(finding.status == "problem" for finding in findings):
        sys.exit(1)


def _style(mark: str, status: Status) -> str:
    return click.style(mark, fg=_COLOURS[status], bold=True)
