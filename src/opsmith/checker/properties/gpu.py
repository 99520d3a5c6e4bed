"""Checks that an operator works on the current stream, on the tensors' device, and in CUDA graphs.

What a kernel reads shows the stream it runs on. The inputs hold zeros until a copy that is queued behind a long wait on
the current stream: a kernel that is not queued behind that copy has read the zeros by then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.queued_calls import interference
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.oracle import Disagreement, Expected, compare, expect

__all__ = ["TOO_EARLY", "devices", "graph", "streams"]

# Says that a kernel does not run behind the work that its inputs come from.
TOO_EARLY = "it read its inputs before they were written"

# About a fifth of a second: much longer than it takes to call an operator that has been called before.
_WAIT_CYCLES = 400_000_000
_WARM_UP = 3
_OWN_MEMORY = (
    "Give each call its own memory (opsmith::Workspace), and pass numbers to the kernel by value: what is static, on the "
    "device, in constant or in pinned memory, is shared by all calls that wait or run."
)


def streams(context: Context) -> Outcome:
    """Work is queued on the current stream, behind what PyTorch has queued there, and calls do not share memory."""
    case = _right_case(context)
    if case is None:
        return not_run("ordinary calls already fail, or the reference rejects them")
    words = _late_inputs(context, case, "cuda:0", torch.cuda.Stream(device=0))
    if words:
        hint = "Launch on the kernel's stream argument, or on c10::cuda::getCurrentCUDAStream()."
        message = f"on a non-default stream, it does not wait for the work queued before it: {words}"
        return failed(Finding(message, case, hint))
    if (found := interference(context)) is not None:
        other, how = found
        return failed(Finding(f"{other.label}: the result {how}", other, _OWN_MEMORY))
    if words is None:
        return not_run("zeros give the same result, which does not show when inputs were read")
    return passed(2)


def devices(context: Context) -> Outcome:
    """Tensors on a second GPU are worked on there, while the first is current, and the first stays current."""
    if torch.cuda.device_count() < 2:
        return not_run("this machine has only one GPU")
    case = _right_case(context)
    if case is None:
        return not_run("ordinary calls already fail, or the reference rejects them")
    torch.cuda.set_device(0)
    hint = "Set the tensors' device for the duration of the call: c10::cuda::CUDAGuard, or torch's device guard."
    context.tell("tensors on cuda:1 while cuda:0 is current")
    try:
        words = _late_inputs(context, case, "cuda:1", None)
    except RuntimeError as error:
        line = (str(error).splitlines() or [""])[0]
        return failed(Finding(f"with tensors on cuda:1 while cuda:0 is current it raises: {line}", case, hint))
    if (left := torch.cuda.current_device()) != 0:
        return failed(Finding(f"a call with tensors on cuda:1 leaves cuda:{left} current; cuda:0 was", case, hint))
    if words:
        return failed(Finding(f"with tensors on cuda:1 while cuda:0 is current, {words}", case, hint))
    return passed(1)


def graph(context: Context) -> Outcome:
    """A call is captured in a CUDA graph, and a replay works on what the inputs hold then."""
    case = _right_case(context)
    if case is None:
        return not_run("ordinary calls already fail, or the reference rejects them")
    if _has_sizes_of_data(context, case):
        return not_run("the size of a result depends on data, for which the host has to wait")
    if _late_inputs(context, case, "cuda:0", torch.cuda.Stream(device=0)):
        return not_run("work is not on the current stream, so nothing would be captured: see streams")
    values = case.build("cuda:0")
    _warm_up(context, values)
    captured = torch.cuda.CUDAGraph()
    context.tell("capture in a CUDA graph")
    try:
        with torch.cuda.graph(captured):
            found = context.subject.results(context.subject.kernel, values)
    except RuntimeError as error:
        line = (str(error).splitlines() or [""])[0]
        return failed(
            Finding(
                f"a call cannot be captured in a CUDA graph: {line}",
                case,
                "Waiting for the GPU (cudaDeviceSynchronize, a copy to the host) and cudaMalloc end a capture; allocate "
                "through PyTorch, and leave values on the GPU.",
            )
        )
    other = _other_values(context, case)
    expected = expect(context.subject, other, other.build("cuda:0")).completed()
    for times in ("once", "twice"):
        _fill(values, other.build("cuda:0"))
        captured.replay()
        torch.cuda.synchronize()
        if (wrong := compare(found, expected)) is not None:
            message = f"a graph replayed {times} with other input values gives wrong results: {wrong}"
            hint = "A call must not depend on values that the host reads during capture, and all of its work has to be "
            return failed(Finding(message, other, f"{hint}on the current stream: on another one it is done once."))
    return passed(3)


def _right_case(context: Context) -> Case | None:
    """Return a call that goes right in the ordinary way."""
    for case in context.subject.suite.cases(context.dtypes, "plain"):
        with contextlib.suppress(RefusedError):
            if disagreement(context, case) is None:
                return case
    return None


def _late_inputs(context: Context, case: Case, device: str, stream: torch.cuda.Stream | None) -> str | None:
    """Call the kernel before its inputs hold their values; return what is wrong, or None if nothing would show.

    `stream` becomes current for that; without one it is the device's default stream, and the device is not made current
    for the call.
    """
    subject = context.subject
    real = case.build(device)
    expected = expect(subject, case, real).completed()
    zeros = {name: _zeroed(value) for name, value in real.items()}
    if _is_expected(context, zeros, expected):
        return None
    queue = stream if stream is not None else torch.cuda.default_stream(device)
    with torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext():
        # Memory of this stream's own, and code that is loaded: the call below must wait for neither.
        for _ in range(2):
            subject.results(subject.kernel, {name: _zeroed(value) for name, value in real.items()})
    torch.cuda.synchronize(device)
    context.tell(f"inputs that arrive late on {device}")
    with torch.cuda.stream(queue):
        torch.cuda._sleep(_WAIT_CYCLES)
        _fill(zeros, real)
    with torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext():
        found = subject.results(subject.kernel, zeros)
    torch.cuda.synchronize(device)
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)
    wrong = compare(found, expected)
    return "" if wrong is None else _words(context, wrong, found, real)


def _words(context: Context, wrong: Disagreement, found: list[Tensor], real: Mapping[str, Any]) -> str:
    """Say what the kernel has read instead, where that can be told."""
    zeros = {name: _zeroed(value) for name, value in real.items()}
    with contextlib.suppress(Exception):
        early = context.subject.results(context.subject.reference, zeros)
        if all(torch.allclose(one, other, 0.01, 0.01, equal_nan=True) for one, other in zip(found, early, strict=True)):
            return f"{TOO_EARLY} ({wrong})"
    return str(wrong)


def _is_expected(context: Context, values: Mapping[str, Any], expected: Expected) -> bool:
    """Whether other arguments give the same results, so that results do not tell which were read."""
    try:
        early = context.subject.results(
            context.subject.reference, {name: _copied(value) for name, value in values.items()}
        )
    except Exception:
        return True
    return compare(early, expected) is None


def _warm_up(context: Context, values: Mapping[str, Any]) -> None:
    """Call the kernel a few times on a stream of its own, as PyTorch asks for before a capture."""
    stream = torch.cuda.Stream(device=0)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            context.subject.results(context.subject.kernel, {name: _copied(value) for name, value in values.items()})
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def _has_sizes_of_data(context: Context, case: Case) -> bool:
    signature = context.subject.signature
    if signature is not None and signature.data_dependent:
        return True
    shapes = []
    for values in (case.build("cpu"), {name: _zeroed(value) for name, value in case.build("cpu").items()}):
        try:
            shapes.append([result.shape for result in context.subject.results(context.subject.reference, values)])
        except Exception:
            return False
    return shapes[0] != shapes[1]


def _other_values(context: Context, case: Case) -> Case:
    """Return the same call with other numbers, or the call itself where the reference refuses those."""

    def change(value: Any) -> Any:
        if isinstance(value, TensorRecipe):
            if value.given is None:
                return replace(value, seed=value.seed + 100)
            return replace(value, given=value.given.flip(tuple(range(value.given.dim()))))
        return tuple(map(change, value)) if isinstance(value, tuple) else value

    other = replace(case, arguments={name: change(value) for name, value in case.arguments.items()})
    try:
        context.subject.results(context.subject.reference, other.build("cpu"))
    except Exception:
        return case
    return other


def _pairs(targets: Mapping[str, Any], sources: Mapping[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    for name, target in targets.items():
        source = sources[name]
        if isinstance(target, Tensor):
            yield target, source
        elif isinstance(target, list):
            yield from ((one, other) for one, other in zip(target, source, strict=True) if isinstance(one, Tensor))


def _fill(targets: Mapping[str, Any], sources: Mapping[str, Any]) -> None:
    for target, source in _pairs(targets, sources):
        target.copy_(source)


def _zeroed(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.zeros_like(value)
    return [_zeroed(item) for item in value] if isinstance(value, list) else value


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(item) for item in value] if isinstance(value, list) else value
