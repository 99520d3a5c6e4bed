"""Calls an operator in a process that is forked after a call: threads that the kernel has begun do not exist there."""

from __future__ import annotations

import contextlib
import time

from opsmith.checker.calls import accepted, kernel_outputs, quiet
from opsmith.checker.outcome import Finding
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["hangs_after_fork"]

# A call that takes so long there is waiting for a thread, unless it took nearly as long before.
_SILENCE_S, _TIMES_LONGER = 6.0, 20
_HINT = "Threads do not exist in a forked process: begin those of a pool anew there (pthread_atfork), or use PyTorch's."


def hangs_after_fork(context: Context) -> Finding | None:
    """Return a finding if a call hangs in a process that was forked from one that has called.

    All of a check's processes are forked from one that has not.
    """
    case = next(accepted(context, "plain"), None)
    if case is None or not context.is_main_type:
        return None
    context.tell(case)
    started_s = time.monotonic()
    _call(context, case)
    silence_s = max(_SILENCE_S, _TIMES_LONGER * (time.monotonic() - started_s))

    def work(send: Send) -> None:
        _call(context, case)

    if not any(isinstance(message, Ended) and message.hung for message in in_child(work, silence_s=silence_s)):
        return None
    message = "called in a process that was forked after a call, as the workers of a DataLoader may be, it hangs"
    return Finding(f"{case.label}: {message}", case, _HINT)


def _call(context: Context, case: Case) -> None:
    with quiet(), on_threads(1), contextlib.suppress(Exception):
        kernel_outputs(context.subject, case.build(context.device))
