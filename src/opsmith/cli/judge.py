"""Judges candidates from the command line: `opsmith judge`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from opsmith._streams import flush_streams
from opsmith.cli.options import options_of, read_options
from opsmith.cli.selection import refuse_unwritable, usage_errors
from opsmith.errors import ArgumentError
from opsmith.judging.options import JudgeOptions

if TYPE_CHECKING:
    from opsmith.judging.batch import BatchReport
    from opsmith.judging.result import Judgement

__all__ = ["command"]

_REFUSED, _TASK_REFUSED, _FAILED = 1, 3, 4


@click.command("judge")
@click.argument("task")
@click.argument("candidate", required=False, type=click.Path(path_type=Path))
@options_of(JudgeOptions)
@click.option(
    "--require",
    type=click.Choice(("posed", "operator")),
    default="posed",
    help="The verdict that the exit code follows.  [default: posed]",
)
@click.option(
    "--batch", "folder", type=click.Path(path_type=Path, file_okay=False), help="Judge every candidate of this folder."
)
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --batch: the log that a later run goes on from.  [default: opsmith-judge.jsonl in the folder]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON.")
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the judgement as an HTML page."
)
@click.option("-v", "--verbose", is_flag=True, help="Show what was asked, and what kept the candidate apart.")
def command(
    task: str,
    candidate: Path | None,
    require: Literal["posed", "operator"],
    folder: Path | None,
    log: Path | None,
    as_json: bool,
    page: Path | None,
    verbose: bool,
    **values: object,
) -> None:
    """Judge the file CANDIDATE for TASK: is it right, and how fast is it?

    TASK is an operator of opsmith's, a KernelBench problem, a gpu-mode folder, or a FlashInfer-Bench definition. The
    candidate runs in a process of its own. Exits with 0 if it is accepted, 1 if it is refused, 3 if the task is, 2 if the
    command line is wrong, and 4 if the judge itself failed, so that nothing is known.
    """
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__)  # the task's reference runs here, and may be native code
    with usage_errors():
        refuse_unwritable(page, log)
        options = read_options(JudgeOptions, values)
        if (candidate is None) == (folder is None):
            raise ArgumentError("give one candidate, or --batch and a folder of them")
        if folder is None and log is not None:
            raise ArgumentError("--log belongs to --batch")
        if folder is not None:
            judgements: Sequence[Judgement] = _batch(task, folder, log, options, as_json=as_json)
        else:
            assert candidate is not None

            def give_up(judgement: Judgement) -> None:
                _show(judgement, as_json=as_json, verbose=verbose)
                status = _finish([judgement], require, page)
                flush_streams()
                os._exit(status)  # the main thread is in a call that does not come back

            judgements = [_one(task, candidate, options, _doing if verbose else _say_nothing, give_up)]
            _show(judgements[0], as_json=as_json, verbose=verbose)
    sys.exit(_finish(judgements, require, page))


def _finish(judgements: Sequence[Judgement], require: str, page: Path | None) -> int:
    """Write the page that is asked for, and return the exit code."""
    if page is not None:
        from opsmith.report.judge.page import judgements_as_html

        page.write_text(judgements_as_html(judgements), encoding="utf-8")
    return _status(judgements, require)


def _status(judgements: Sequence[Judgement], require: str) -> int:
    if any(one.failure for one in judgements):
        return _FAILED

    def is_refused(one: Judgement) -> bool:
        required = (one.as_posed, one.as_operator) if require == "operator" else (one.as_posed,)
        # What is not judged since the task does not return is no fault of the candidate's.
        return any(part.state == "refused" or (part.state != "accepted" and not one.task_charges) for part in required)

    if any(map(is_refused, judgements)):
        return _REFUSED
    return _TASK_REFUSED if any(one.task_charges for one in judgements) else 0


def _one(
    task: str,
    path: Path,
    options: JudgeOptions,
    watch: Callable[[str], None],
    give_up: Callable[[Judgement], None],
) -> Judgement:
    from opsmith.judging.candidate import read_candidate
    from opsmith.judging.failures import failed_judgement
    from opsmith.judging.hooks import Hooks
    from opsmith.judging.run import run_judge
    from opsmith.judging.task_files import load_task

    candidate = read_candidate(path)
    posed = load_task(
        task,
        examples=options.examples,
        seconds=options.load_seconds,
        give_up=lambda refused: give_up(run_judge(refused, candidate, options)),
    )
    try:
        return run_judge(posed, candidate, options, Hooks(watch, give_up=give_up))
    except ArgumentError:
        raise
    except Exception as error:
        traceback.print_exc()  # for whoever repairs the judge
        return failed_judgement(posed, candidate, options, error)


def _show(judgement: Judgement, *, as_json: bool, verbose: bool) -> None:
    from opsmith.report.judge.text import report_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width

    if as_json:
        click.echo(judgement.to_json(), nl=False)
        return
    console = console_for()
    echo(report_lines(judgement, style=colour(console), width=line_width(console), verbose=verbose), console)


def _doing(doing: str) -> None:
    click.echo(f"opsmith  {doing}", err=True)


def _say_nothing(doing: str) -> None:
    """Show nothing of what is done next."""


def _batch(task: str, folder: Path, log: Path | None, options: JudgeOptions, *, as_json: bool) -> tuple[Judgement, ...]:
    from opsmith.judging.batch import judge_batch
    from opsmith.report.judge.text import batch_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width

    report: BatchReport = judge_batch(
        task,
        folder,
        options,
        log=log,
        watch=lambda name, doing: click.echo(f"opsmith  {name}  {doing}", err=True),
        go_on=_beginning_again(),
    )
    if as_json:
        click.echo(f"[{','.join(one.to_json() for one in report.judgements)}]")
        return report.judgements
    console = console_for()
    echo(batch_lines(report, style=colour(console), width=line_width(console)), console)
    return report.judgements


def _beginning_again() -> Callable[[], NoReturn]:
    """Return a function that replaces this process by one with the same command, which goes on from the log."""
    import resource  # not on every system

    memory = resource.getrlimit(resource.RLIMIT_AS)

    def begin_again() -> NoReturn:
        flush_streams()
        # The limits of the call that does not come back would be those of the new process.
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, memory)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    return begin_again
