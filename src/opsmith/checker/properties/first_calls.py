"""Makes the first call of a process on several threads, again and again: each time in a process of its own.

What a kernel initializes in its first call, such as a table, is not there yet for a thread that comes a moment later.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import element_bytes
from opsmith.checker.calls import accepted, quiet, seed_generators
from opsmith.checker.outcome import Finding
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.stress import copied
from opsmith.subject.case import Case

__all__ = ["unsteady_first_call"]

_MANY = 4
_SILENCE_S = 20.0
_ELEMENTS = 1 << 18
_HINT = (
    "Initialize what all threads share before the threads begin, or in a local static variable, which C++ initializes "
    "once; a flag says that data is there only if it is set after the data, with release and acquire."
)


def unsteady_first_call(context: Context, processes: int) -> Finding | None:
    """Return a finding if the first call of a process on several threads gives other results than those after it.

    `processes` is how many make one. This process must not have called the kernel before.
    """
    case = next(accepted(context, "large"), None)
    if case is None:
        return None
    if hasattr(context.subject.call, "_opoverload"):
        # What torch.library.custom_op imports on a first call takes seconds; here once, and not in each child.
        importlib.import_module("torch._dynamo")
    # As many as usual begin at once; of many, some interrupt the one that initializes.
    usual = max(2, torch.get_num_threads())
    context.tell(case)
    counts = (usual, _MANY * usual) * (processes // 2)
    count = next((count for count in counts if _is_first_other(context, case, count)), 0)
    if count == 0 or _is_first_other(context, case, 1):
        return None  # where one thread alone differs, it is not because of threads
    message = f"{case.label}: on {count} threads the first call of a process gives other results than those after it"
    return Finding(message, case, _HINT)


def _is_first_other(context: Context, case: Case, count: int) -> bool:
    """Whether in a new process the first call differs from the second, and the second not from the third."""

    def work(send: Send) -> None:
        values = case.build(context.device)
        with quiet(), on_threads(count):
            torch.ones(_ELEMENTS).mul_(2.0)  # the threads are there from now on, and begin at the same time
            send([_digest(_outputs(context, values)) for _ in range(3)])

    for message in in_child(work, silence_s=_SILENCE_S, until_s=context.until_s):
        if not isinstance(message, Ended):
            first, second, third = message
            return bool(first != second == third)
    return False


def _outputs(context: Context, values: Mapping[str, Any]) -> list[Tensor]:
    seed_generators(context.subject.seed)
    return context.subject.kernel_results(copied(values))


def _digest(results: list[Tensor]) -> str:
    digest = hashlib.blake2b()
    for result in results:
        digest.update(element_bytes(result).numpy().tobytes())
    return digest.hexdigest()
