"""Compares a mutant's results with the original's to the last bit, which tells a fault that never shows from a small one."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from torch import Tensor

from opsmith.checker.mutate.trial import Trial, loaded_subject
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.threads import on_threads
from opsmith.checker.process.timed_cases import interleaved
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import MOST_ELEMENTS, request_of
from opsmith.subject.case import Case
from opsmith.subject.derivatives import gradients
from opsmith.subject.subject import Subject

__all__ = ["fingerprint"]

# The inputs of each element type.
_CASES = 30
_GROUPS = ("plain", "sizes", "values", "special", "layouts", "scalars", "empty")


def fingerprint(trial: Trial, library: Path) -> tuple[str, ...] | None:
    """Return digests of a library's results and gradients for a fixed set of inputs; None if it does not get through."""
    made: tuple[str, ...] | None = None
    silence_s = trial.limits.silence_s
    for message in in_child(lambda send: _digest_all(trial, library, send), silence_s=silence_s):
        if isinstance(message, tuple):
            made = message
        elif isinstance(message, Ended) and message.crash:
            return None
    return made


def _digest_all(trial: Trial, library: Path, send: Send) -> None:
    subject = loaded_subject(trial, library)
    made: list[str] = []
    for dtypes in subject.dtypes or ({},):
        if trial.dtypes and not set(trial.dtypes) & set(dtypes.values()):
            continue
        for case in islice(interleaved(subject.suite.cases(dtypes, *_GROUPS)), _CASES):
            send("")
            with on_threads(1):
                made.append(_digest_of(Context(subject, trial.device, dtypes), subject, case))
    send(tuple(made))


def _digest_of(context: Context, subject: Subject, case: Case) -> str:
    state = hashlib.sha256()
    for tensor in _results(context, subject, case):
        state.update(str(tensor.shape).encode())
        state.update(_bytes(tensor))
    return state.hexdigest()[:16]


def _results(context: Context, subject: Subject, case: Case) -> Iterator[Tensor]:
    # What a call raises is the same for both, or a property would have found it.
    with contextlib.suppress(Exception):
        yield from subject.kernel_results(case.build(context.device))
    if case.elements <= MOST_ELEMENTS:
        with contextlib.suppress(Exception):
            request = request_of(context, case)
            if request is not None:
                found = gradients(subject, subject.kernel, case.build(context.device), request)
                yield from (gradient for gradient in found if gradient is not None)


def _bytes(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.nbytes) if plain.nbytes else b""
