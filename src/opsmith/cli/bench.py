"""`opsmith bench`: time operators against their references, the compiler, and the machine's limit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith.errors import ArgumentError, DefinitionError

if TYPE_CHECKING:
    from opsmith.bench.compare import Change
    from opsmith.bench.result import BenchReport
    from opsmith.bench.run import BenchOptions
    from opsmith.check.subject import Subject

__all__ = ["command"]


@click.command("bench")
@click.argument("path", metavar="PATH[::OP]")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: the GPU where there is one]")
@click.option("--dtype", "dtypes", multiple=True, help="float32, ...; may be repeated.  [default: float32, on a GPU bfloat16]")
@click.option("--size", "sizes", multiple=True, metavar="B=64,N=4096", help="Sizes by name; may be repeated.")
@click.option("--phase", "phases", multiple=True, type=click.Choice(["forward", "backward", "both"]))
@click.option("--against", "against", multiple=True, help="compiled, reduce-overhead, max-autotune, graph, or one that @op.versus names.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long one operator may take.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the report there; - prints it.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Write a page with plots there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a table for a README.")
@click.option("--compare", "earlier", type=click.Path(path_type=Path, exists=True), help="An earlier report: exit with 1 where it has become slower.")
@click.option("--reference", metavar="MODULE:FUNCTION", help="What the operator computes, in plain PyTorch.")
@click.option("--examples", metavar="MODULE:FUNCTION", help="Returns calls to time: tuples of arguments.")
def command(
    path: str,
    device: str | None,
    dtypes: tuple[str, ...],
    sizes: tuple[str, ...],
    phases: tuple[str, ...],
    against: tuple[str, ...],
    seconds: float,
    seed: int,
    json_file: Path | None,
    html_file: Path | None,
    as_markdown: bool,
    earlier: Path | None,
    reference: str | None,
    examples: str | None,
) -> None:
    """Time the operators of PATH: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    All competitors take turns in one run. Exits with 1 where a result is wrong or, with --compare, where an operator has
    become slower than the noise, and with 2 where the command line is wrong.
    """
    import torch

    from opsmith.bench.competitors import PHASES
    from opsmith.bench.run import BenchOptions

    sys.path.insert(0, str(Path.cwd()))
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = tuple(phase for phase in PHASES if not phases or phase in phases)
    try:
        options = BenchOptions(chosen, against, dtypes, tuple(map(_read_sizes, sizes)), seconds, seed=seed)
        subjects = _subjects(path, device, reference, examples)
        reports = [_run(subject, device, options) for subject in subjects]
    except (ArgumentError, DefinitionError) as error:
        raise click.UsageError(str(error)) from error
    _write(reports, json_file, html_file, as_markdown)
    changes = [change for report in reports for change in _changes(earlier, report)] if earlier is not None else []
    if not all(report.ok for report in reports) or any(change.is_regression for change in changes):
        sys.exit(1)


def _read_sizes(text: str) -> dict[str, int]:
    try:
        return {name.strip(): int(value) for name, _, value in (part.partition("=") for part in text.split(","))}
    except ValueError:
        raise ArgumentError(f"--size {text}: write names and numbers, such as B=64,N=4096") from None


def _subjects(path: str, device: str, reference: str | None, examples: str | None) -> list[Subject]:
    from opsmith.check.api import forward_operators
    from opsmith.check.find import find_attribute, find_operators
    from opsmith.check.subject import subject_of

    said: dict[str, Any] = {}
    if reference is not None:
        said["reference"] = find_attribute(reference, "--reference")
    if examples is not None:
        said["examples"] = find_attribute(examples, "--examples")
    return [subject_of(op, devices=(device,), **said) for op in forward_operators(find_operators(path))]


def _run(subject: Subject, device: str, options: BenchOptions) -> BenchReport:
    from rich.console import Console

    from opsmith.bench.run import run_bench

    console = Console(stderr=True)
    if not console.is_terminal:
        return run_bench(subject, device, options)
    with console.status(f"{subject.name} ...") as status:
        return run_bench(subject, device, options, lambda now: status.update(f"{subject.name}: {now.doing}"))


def _write(reports: list[BenchReport], json_file: Path | None, html_file: Path | None, as_markdown: bool) -> None:
    from opsmith.bench.render.text import markdown, report_lines

    text = json.dumps([json.loads(report.to_json()) for report in reports], indent=2) + "\n"
    if json_file is not None and str(json_file) != "-":
        json_file.write_text(text, encoding="utf-8")
    if html_file is not None:
        from opsmith.bench.render.html import page

        html_file.write_text(page(reports), encoding="utf-8")
    if json_file is not None and str(json_file) == "-":
        click.echo(text, nl=False)
        return
    for report in reports:
        click.echo(markdown(report) if as_markdown else "\n".join(report_lines(report)))


def _changes(earlier: Path, report: BenchReport) -> tuple[Change, ...]:
    """Print how an operator compares with an earlier report of it, and return that."""
    from opsmith.bench.compare import compare_reports
    from opsmith.bench.result import BenchReport

    try:
        found = [BenchReport.from_json(json.dumps(item)) for item in json.loads(earlier.read_text(encoding="utf-8"))]
    except ValueError as error:
        raise click.UsageError(f"{earlier}: {error}") from error
    for before in found:
        if before.operator != report.operator:
            continue
        changes = compare_reports(before, report)
        for change in changes:
            word = "slower" if change.is_regression else "faster" if change.is_real else "no difference"
            click.echo(f"  {change.place}: {change.times_slower:.2f} of the earlier time, {word}")
        return changes
    raise click.UsageError(f"{earlier} has no report of {report.operator}")
