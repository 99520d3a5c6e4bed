"""Writes the programs of a report's findings, runs each again in a new process, and says what came of it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from opsmith.checker.judge import MEASURED
from opsmith.checker.outcome import Finding
from opsmith.checker.process.fresh import Again, Request, run_again
from opsmith.checker.report import Result
from opsmith.checker.snippet import Program, program_of
from opsmith.checker.verdict import AT_TIMES, Judged
from opsmith.runtime.operator import Operator
from opsmith.subject.subject import Subject

__all__ = ["with_programs"]

# What all programs of a report may take together; the first of each property comes first.
_SECONDS = 30.0
# A check with a limit has to have so much left for a program.
_LEAST_S = 5.0
# How long a program may be silent: it imports the user's module, and may hang as the operator does.
_LEAST_SILENCE_S, _MOST_SILENCE_S = 5.0, 20.0
# These need many calls, or a device of their own.
_NOT_RUN = frozenset({"large", "streams", "devices", "graph", *MEASURED})
_NOT_AGAIN = "In a new process the program does not show it: it depends on what this process had done before the check."


def with_programs(
    subject: Subject, rows: Sequence[Judged], *, is_run: bool, silence_s: float, until_s: float = inf
) -> list[Result]:
    """Return the results of a report, each finding that has a call with a program that was run again.

    Of a property that failed in several element types, the first is run. A call that takes `silence_s` hangs.
    """
    silence_s = max(_LEAST_SILENCE_S, min(_MOST_SILENCE_S, silence_s))
    until_s = min(until_s, time.monotonic() + _SECONDS)
    run_for: set[tuple[str, str]] = set()
    results = []
    for row in rows:
        findings = []
        for finding in row.outcome.findings:
            name = (row.task.item.name, row.task.column.device)
            may_run = is_run and name not in run_for
            run_for.add(name)
            findings.append(_with_program(subject, row, finding, silence_s, until_s if may_run else -inf))
        results.append(Result(row.task.item.name, row.task.column, replace(row.outcome, findings=tuple(findings))))
    return results


def _with_program(subject: Subject, row: Judged, finding: Finding, silence_s: float, until_s: float) -> Finding:
    if finding.case is None or finding.snippet:
        return finding
    name = finding.seen_as or row.task.item.name
    try:
        program = program_of(subject, finding.case, row.task.column.device, name, finding.earlier, finding.request)
    except Exception as error:
        text = f"# It cannot be written as a program ({type(error).__name__}: {error}): {finding.case.label}"
        return replace(finding, snippet=text)
    shown = replace(finding, snippet=program.text)
    if until_s == -inf or name in _NOT_RUN or AT_TIMES in finding.message:
        return shown
    again = _run(subject, row, finding, program, silence_s, until_s)
    if again.failed:
        return shown
    words = f"The program was not run again: {again.why_not}." if again.why_not else _NOT_AGAIN
    return replace(shown, message=f"{finding.message}\n{words}")


def _run(subject: Subject, row: Judged, finding: Finding, program: Program, silence_s: float, until_s: float) -> Again:
    if program.missing:
        return Again(why_not=program.missing)
    if until_s - time.monotonic() < _LEAST_S:
        return Again(why_not="there was no time for it")
    modules = re.findall(r"^(?:from|import) ([\w.]+)", program.text, re.MULTILINE)
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in modules}
    if program.is_of_main:
        return Again(why_not="the operator is defined in the program that runs the check")
    is_own = isinstance(subject.call, Operator) and subject.reference is subject.call.reference
    assert finding.case is not None
    request = Request(
        program.text,
        program.operator,
        "" if is_own else program.reference,
        finding.seen_as or row.task.item.name,
        finding.case,
        finding.earlier,
        row.task.column.device,
        dict(row.task.dtypes),
        subject.seed,
        row.crashed,
        {name: file for name, file in files.items() if file is not None and "." not in name},
        silence_s,
    )
    return run_again(request, until_s)
