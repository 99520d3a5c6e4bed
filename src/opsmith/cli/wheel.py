"""Makes a project's wheel as it should be published, and audits it: `opsmith wheel`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opsmith.package.prove.result import Proof

__all__ = ["command"]


@click.command("wheel")
@click.argument("project", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default="dist",
    show_default=True,
    metavar="DIR",
    help="Folder for the wheel.",
)
@click.option("--torch-target", metavar="VERSION", help="Oldest torch that it must load in, such as 2.10.")
@click.option("--archs", metavar="LIST", help="GPU architectures, such as '8.0;9.0+PTX'.")
@click.option(
    "--cuda", metavar="VERSION", help="CUDA whose nvcc compiles, such as 12: the wheel is for that and newer."
)
@click.option("--standalone", is_flag=True, help="Make it do without opsmith: a copy of what runs operators is inside.")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OLD",
    help="The release before: which calls of its operators break.",
)
@click.option(
    "--prove", "proves", is_flag=True, help="Run it with every torch from its floor up, as `opsmith prove` does."
)
@click.option("-v", "--verbose", is_flag=True, help="Show more about notes, and every library.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    project: Path,
    output: Path,
    torch_target: str | None,
    archs: str | None,
    cuda: str | None,
    standalone: bool,
    against: Path | None,
    proves: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Build the wheel of PROJECT, a folder with pyproject.toml, and audit it.

    One wheel serves every Python, and every torch from the target on. Its platform tag says which glibc it needs, and the
    same input gives the same bytes. Exits with 1 if the audit refuses it, or if it
    does not work where `--prove` runs it.
    """
    from opsmith.cli.prove import print_proof
    from opsmith.cli.selection import refuse_unwritable
    from opsmith.package.wheel.build import WheelRequest, build_wheel
    from opsmith.report.audit.text import audit_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width
    from opsmith.toolchain.archs import parse_cuda_release

    request = WheelRequest(
        project, output, torch_target, archs, against, standalone, cuda and parse_cuda_release(cuda, "--cuda")
    )
    refuse_unwritable(output / ".opsmith")  # before minutes of compiling
    built = build_wheel(request, lambda line: click.echo(line, err=True))
    if not as_json:
        console = console_for()
        width = line_width(console, least=60)
        echo(audit_lines(built.audit, style=colour(console), details=verbose, width=width), console)
        click.echo(f"{built.path}  built in {built.seconds:.1f} s")
    proof = _proof_of(built.path) if proves and built.audit.is_sound else None
    if as_json:
        content: dict[str, object] = {
            "wheel": str(built.path),
            "seconds": built.seconds,
            "audit": built.audit.as_json(),
            "proof": None if proof is None else proof.as_json(),
        }
        click.echo(json.dumps(content, indent=2))
    elif proof is not None:
        print_proof(proof)
    if not built.audit.is_sound or (proof is not None and not proof.ok):
        sys.exit(1)


def _proof_of(wheel: Path) -> Proof:
    from opsmith.cli.prove import run_proof
    from opsmith.package.prove.environment import CPU_INDEX
    from opsmith.package.prove.run import ProofRequest

    return run_proof(wheel, ProofRequest(index=CPU_INDEX))
