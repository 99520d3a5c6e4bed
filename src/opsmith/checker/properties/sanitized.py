"""Runs an operator under ThreadSanitizer as a part of a thorough check: it sees races that no result shows."""

from __future__ import annotations

import threading

from opsmith.checker.outcome import Finding, Outcome, not_run
from opsmith.checker.properties.context import Context
from opsmith.errors import OpsmithError

__all__ = ["race_under_sanitizer"]

_SECONDS = 60.0  # for the inputs of one element type, which are in an order that has every kind early
_TELL_S = 10.0


def race_under_sanitizer(context: Context) -> tuple[Finding | None, str]:
    """Return what ThreadSanitizer finds, and why it did not run where it did not."""
    from opsmith.checker.sanitize.run import Request, run_sanitizer

    op = context.subject.operator
    if op is None or op.definition.module == "__main__":
        return None, "without ThreadSanitizer, for which opsmith has to build the operator from a module"
    request = Request(
        f"{op.definition.module}::{op.definition.name}",
        dtypes=(context.dtype,) if context.dtype else (),
        seed=context.subject.seed,
        seconds=_SECONDS,
    )
    outcomes: list[Outcome] = []

    def run() -> None:
        try:
            outcomes.append(run_sanitizer(op, "thread", request).results[0].outcome)
        except OpsmithError as error:
            outcomes.append(not_run(str(error).splitlines()[0]))

    worker = threading.Thread(target=run)
    worker.start()
    while worker.is_alive():
        # Building and running take a while, and a process that reports nothing counts as hanging.
        context.tell("a run under ThreadSanitizer")
        worker.join(_TELL_S)
    outcome = outcomes[0]
    if outcome.state == "failed":
        return outcome.findings[0], ""
    return None, f"ThreadSanitizer did not run: {outcome.note[:200]}" if outcome.state == "not run" else ""
