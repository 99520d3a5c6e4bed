"""Shows what a wheel or a library needs and promises, and refuses a false promise: `opsmith audit`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

__all__ = ["command"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("audit")
@click.argument("file", type=_FILE)
@click.option("--against", type=_FILE, metavar="OLD", help="The release before: which calls of its operators break.")
@click.option("--archs", metavar="LIST", help="GPU architectures that it must have code for, such as '8.0;9.0+PTX'.")
@click.option("--cuda", metavar="VERSION", help="Oldest CUDA whose torch and driver it must work with, such as 12.")
@click.option("--why", is_flag=True, help="Explain each symbol of torch's C++ API, and what replaces it.")
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Sources in which to find where they are used; implies --why.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show more about notes, and every library and symbol.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    file: Path,
    against: Path | None,
    archs: str | None,
    cuda: str | None,
    why: bool,
    source: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Audit FILE, a wheel or a shared library: what it needs, and whether what it claims is true.

    Exits with 1 if a claim is false or something is broken.
    """
    from opsmith.package.audit.api import audit
    from opsmith.report.audit.text import audit_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width
    from opsmith.toolchain.archs import parse_cuda_release, split_archs

    result = audit(
        file,
        against=against,
        archs=split_archs(archs or ""),
        cuda=None if cuda is None else parse_cuda_release(cuda, "--cuda"),
        why=why,
        sources=source,
    )
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        console = console_for()
        width = line_width(console, least=60)
        echo(audit_lines(result, style=colour(console), details=verbose, width=width), console)
    if not result.is_sound:
        sys.exit(1)
