"""Checks that invalid arguments are refused, in child processes, so that a crash or a hang is reported too."""

from __future__ import annotations

import faulthandler
import importlib
import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.child import Child, Ended, Send, in_child
from opsmith.checker.process.memory_limit import limit_memory
from opsmith.checker.properties.agreement import roughly_equal
from opsmith.checker.properties.answers import OTHER_RESULT, SpoiledError, judge
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.probes import Probe, probes_of
from opsmith.subject.case import Case

__all__ = ["bad_arguments"]

_SILENCE_S = 5.0
# The first call of a process on a GPU takes seconds. References run on the CPU for a GPU's tensors too.
_GPU_SILENCE_S = 40.0
_MOST_CHILDREN = 12
_SHOWN = 12
_ORDINARY_CALLS = 50
_BASES = 40
_HINT = (
    "Check ranks, sizes, element types and numbers before the first access, and raise: TORCH_CHECK or STD_TORCH_CHECK in "
    "C++, opsmith::fail in a kernel, an exception in Python."
)


def bad_arguments(context: Context) -> Outcome:
    """Wrong sizes, ranks, types, devices and numbers raise an exception; none crashes, hangs or gives a result."""
    if context.device != "cpu" and torch.cuda.is_initialized():
        return not_run("this process already uses the GPU, so its children cannot")
    if hasattr(context.subject.call, "_opoverload"):
        # What torch.library.custom_op imports on a first call takes seconds; here once, and not in each child.
        importlib.import_module("torch._dynamo")
    cases = list(islice(context.subject.suite.cases(context.dtypes, "plain", "sizes"), _BASES))
    base = _find_base(context, cases)
    if isinstance(base, str):
        return not_run(base)
    index, is_right = base
    run = _ProbeRun(context, cases[index], is_right)
    run.run()
    if run.is_sound is False:
        return not_run("ordinary calls also end the process, after a while")
    if not run.wrong:
        return passed(run.tried, note=run.note)
    worst_first = sorted(run.wrong, key=lambda pair: pair[1].startswith("it returned"))
    lines = [f"  {label}: {words}" for label, words in worst_first[:_SHOWN]]
    if len(run.wrong) > _SHOWN:
        lines.append(f"  and {len(run.wrong) - _SHOWN} more")
    are_answers = all(OTHER_RESULT in words for _, words in run.wrong)
    what = "unusual calls are answered wrongly" if are_answers else "invalid calls were not rejected"
    head = f"{len(run.wrong)} of {run.tried} {what}:"
    return failed(Finding("\n".join([head, *lines]), hint=_HINT), inputs=run.tried, note=run.note)


class _ProbeRun:
    """All probes around one call, in as few children as do not crash."""

    def __init__(self, context: Context, case: Case, is_right: bool) -> None:
        self.context = context
        self.case = case
        self.is_right = is_right
        self.probes = list(probes_of(context.subject, case, context.device))
        self.wrong: list[tuple[str, str]] = []
        self.tried = 0
        self.note = ""
        self.is_sound: bool | None = None  # whether ordinary calls leave the process alone; asked after a crash

    def run(self) -> None:
        start, children = 0, 0
        while start < len(self.probes) and self.is_sound is not False:
            if children == _MOST_CHILDREN:
                self.note = f"{len(self.probes) - start} calls were skipped after {children} crashes"
                return
            start = self._run_from(start)
            children += 1

    def _run_from(self, start: int) -> int:
        """Make the calls from `start` on in a new child; return the number to go on with."""
        at, stage = start, ""
        with Child(self._worker(start)) as child:
            while not isinstance(message := next(child.messages(self._silence_in(stage))), Ended):
                number, stage, words = message
                if stage == "kernel":
                    self.context.tell(self.probes[number].label)
                elif stage == "done":
                    self._take(self.probes[number], words)
                at = number + 1 if stage == "done" else number
        if at < len(self.probes) and stage != "done":
            probe = self.probes[at]
            self._take_end(probe, stage, message)
            at = self.probes.index(probe) + 1
        return at

    def _silence_in(self, stage: str) -> float:
        return _SILENCE_S if stage == "reference" else _silence(self.context)

    def _take(self, probe: Probe, words: str | None) -> None:
        if words is not None:
            self.tried += 1
        if words:
            self.wrong.append((probe.label, words))

    def _take_end(self, probe: Probe, stage: str, ended: Ended) -> None:
        """Record that a child died or hung; in the reference, which is PyTorch's, that says nothing of the kernel."""
        if stage == "kernel" and (ended.hung or self._is_of_probe(probe)):
            words = "it hangs: no answer" if ended.hung else f"it crashes: {ended.crash or 'the process ended'}"
            self._take(probe, words)
        if ended.hung:
            # Other numbers for the argument that it hangs on would hang for as long.
            self.probes = [other for other in self.probes if other is probe or not _is_like(other, probe)]

    def _is_of_probe(self, probe: Probe) -> bool:
        """Whether a crash comes again with that call alone, and not with many ordinary ones.

        A kernel that writes outside of its memory ends the process at some later call, whatever that is.
        """

        def repeat(send: Send) -> None:
            _prepare(self.context.device)
            for _ in range(_ORDINARY_CALLS):
                self.context.subject.kernel_results(self.case.build(self.context.device))
                send(None)

        def again(send: Send) -> None:
            _prepare(self.context.device)
            judge(self.context.subject, probe, None, self.context.device, send)

        if self.is_sound is None:
            self.is_sound = not self._crashes(repeat)
        return self.is_sound and self._crashes(again)

    def _crashes(self, work: Callable[[Send], None]) -> bool:
        *_, ended = in_child(work, silence_s=_silence(self.context))
        return bool(ended.crash)

    def _worker(self, start: int) -> Callable[[Send], None]:
        def work(send: Send) -> None:
            _prepare(self.context.device)
            plain = _plain_results(self.context, self.case) if self.is_right else None
            for number in range(start, len(self.probes)):

                def tell(stage: str, number: int = number) -> None:
                    send((number, stage, None))

                try:
                    words = judge(self.context.subject, self.probes[number], plain, self.context.device, tell)
                except SpoiledError as spoiled:
                    send((number, "done", spoiled.finding))
                    return
                send((number, "done", words))

        return work


def _is_like(one: Probe, other: Probe) -> bool:
    return (one.argument, one.about) == (other.argument, other.about)


def _find_base(context: Context, cases: list[Case]) -> tuple[int, bool] | str:
    """Return the first call that kernel and reference take and whether they agree on it, or in words why there is none."""

    def work(send: Send) -> None:
        _prepare(context.device)
        for number, case in enumerate(cases):
            if (expected := _plain_results(context, case)) is None:
                continue
            send(None)
            try:
                found = context.subject.kernel_results(case.build(context.device))
            except Exception:
                continue
            send((number, roughly_equal(found, expected)))
            return
        send("the reference or the kernel rejects every input")

    last: Any = None
    for message in in_child(work, silence_s=_silence(context)):
        if isinstance(message, Ended):
            break
        last = message
    return last if last is not None else "an ordinary call already ends the process"


def _plain_results(context: Context, case: Case) -> list[torch.Tensor] | None:
    try:
        return context.subject.results(context.subject.reference, case.build("cpu"))
    except Exception:
        return None


def _prepare(device: str) -> None:
    warnings.simplefilter("ignore")
    faulthandler.disable()  # a crash is reported as a finding
    if device == "cpu":
        limit_memory()  # a GPU's driver maps memory of its own; there only references are limited


def _silence(context: Context) -> float:
    return _SILENCE_S if context.device == "cpu" else _GPU_SILENCE_S
