"""Runs a wheel with every torch that it claims to work with: `opsmith prove`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opsmith.package.prove.result import Claim, Proof, Row
    from opsmith.package.prove.run import ProofRequest

__all__ = ["command", "print_proof", "run_proof"]

_WHEEL = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_INDEX = "Where torch comes from; `pip` for pip's own.  [default: PyTorch's CPU builds]"


@click.command("prove")
@click.argument("wheel", type=_WHEEL)
@click.option(
    "--python", "pythons", metavar="VERSION", multiple=True, help="A Python, such as 3.12.  [default: this one]"
)
@click.option("--torch", "torches", metavar="VERSION", multiple=True, help="A torch.  [default: all from the floor up]")
@click.option("--index-url", "index", metavar="URL", help=_INDEX)
@click.option("--here", is_flag=True, help="With this Python and its torch alone, and nothing from a network.")
@click.option(
    "--seconds", type=click.FloatRange(1), default=40.0, show_default=True, help="Limit of each module's check."
)
@click.option("--keep", type=_FOLDER, metavar="DIR", help="Keep environments there, and use its torches again.")
@click.option("--jobs", type=click.IntRange(1), help="Environments at a time.  [default: 2, if there are cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    wheel: Path,
    pythons: tuple[str, ...],
    torches: tuple[str, ...],
    index: str | None,
    here: bool,
    seconds: float,
    keep: Path | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Install WHEEL beside each release of torch from its floor up, without a compiler, and check its operators there.

    Where an environment has a GPU and the wheel has code for it, both the CPU and the GPU are checked.
    Exits with 1 if it fails somewhere, or if no environment can be made.
    """
    from opsmith.package.prove.environment import CPU_INDEX
    from opsmith.package.prove.run import ProofRequest

    if here and (pythons or torches or index):
        raise click.UsageError("--here takes the Python and the torch that are here: leave out what selects others")
    source = None if index == "pip" else index or CPU_INDEX
    proof = run_proof(wheel, ProofRequest(pythons, torches, source, here, seconds, keep, jobs))
    if as_json:
        click.echo(json.dumps(proof.as_json(), indent=2))
    else:
        print_proof(proof)
    if not proof.ok:
        sys.exit(1)


def run_proof(wheel: Path, request: ProofRequest) -> Proof:
    """Prove a wheel, with a line on stderr for each environment."""
    from opsmith.package.prove.run import prove
    from opsmith.report.prove.text import row_text

    def tell(claim: Claim, row: Row | None) -> None:
        click.echo(f"{claim}: ..." if row is None else row_text(row), err=True)

    return prove(wheel, request, tell)


def print_proof(proof: Proof) -> None:
    """Print the matrix of a proof, and what went wrong where."""
    from opsmith.report.prove.text import proof_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width

    console = console_for()
    echo(proof_lines(proof, style=colour(console), width=line_width(console, least=60)), console)
