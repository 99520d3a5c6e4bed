"""Observes what one call of a kernel does to memory: its inputs lie between margins, its allocations are guarded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.calls import differentiated, is_gradient_of_body, kernel_outputs, quiet, seed_generators
from opsmith.checker.memory.damage import Damage, Guard
from opsmith.checker.memory.guard import guarded
from opsmith.checker.memory.margins import PaddedTensor, pad_tensors
from opsmith.checker.process.lost_gpu import settle
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject
from opsmith.subject.values import fill

__all__ = [
    "BODIES",
    "ObservedCall",
    "observe_call",
]

# What guarded memory holds. As numbers, the first two are large, of either sign and finite in every type; the third is NaN.
BODIES = (0x7B, 0xFB, 0xFF)


# Smaller calls run on one thread: on a busy machine threads wait for each other longer than they work.
_FOR_ALL_THREADS = 4096


@dataclass
class ObservedCall:
    """The traces of a call. `results` are by name: outputs, arguments that were written to, and gradients.

    `error` is what it raised; `damage` is a write outside every allocation, and `damaged` the result next to it.
    """

    results: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[PaddedTensor] = field(default_factory=list)
    error: Exception | None = None
    damage: Damage | None = None
    damaged: str = ""


def observe_call(
    context: Context,
    case: Case,
    *,
    body: int = BODIES[0],
    margin: int = BODIES[1],
    around: str = "high",
    with_guard: bool = True,
    with_gradient: bool = True,
) -> ObservedCall:
    """Call the kernel once, and once more with its gradient where there is one.

    `body` fills what is allocated and `margin` what lies around that; `around` names what lies around inputs. A gradient
    that cannot be computed is none: another property says so. One that autograd takes through the body is computed by
    PyTorch's operators alone, and what they do to memory is not looked at.
    """
    subject = context.subject
    with_gradient = with_gradient and not is_gradient_of_body(subject)
    context.tell(case)
    call = ObservedCall()
    with on_threads(1):
        values, call.inputs = pad_tensors(case.build(context.device), around)
    guard = guarded(context.device, body, margin) if with_guard else contextlib.nullcontext()
    threads = torch.get_num_threads() if case.elements >= _FOR_ALL_THREADS else 1
    with quiet(), on_threads(threads), guard as watch:
        seed_generators(subject.seed)
        try:
            call.results = _named(subject, kernel_outputs(subject, values), values)
            settle(context.device)
        except Exception as error:
            call.error = error
        _look_for_damage(call, watch, context.device, _allocated_first(subject, call.results))
        if with_gradient and call.error is None:
            seed_generators(subject.seed)
            with contextlib.suppress(Exception):
                _differentiate(subject, values, around, call)
            _look_for_damage(call, watch, context.device, [])
    return call


def _look_for_damage(call: ObservedCall, watch: Guard | None, device: str, results: list[int]) -> None:
    """Note what was written outside of all blocks; on a GPU outside of the results with these addresses."""
    if device != "cpu":
        torch.cuda.synchronize()
    if watch is None or call.damage is not None or (found := watch.damage(results)) is None:
        return
    call.damage = found
    owners = (name for name, result in call.results.items() if _start(result) == found.address)
    call.damaged = next(owners, "")


def _allocated_first(subject: Subject, results: Mapping[str, Tensor]) -> list[int]:
    """Return the addresses of results that are allocated before the kernel runs, as all are but those of native kernels."""
    kernels = subject.operator.definition.kernels.values() if subject.operator is not None else ()
    are_first = bool(kernels) and all(kernel.style != "native" for kernel in kernels)
    return [_start(result) for name, result in results.items() if are_first and name not in subject.mutated]


def _start(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _differentiate(subject: Subject, values: Mapping[str, Any], around: str, call: ObservedCall) -> None:
    results, leaves = differentiated(subject, values)
    if not results:
        return
    given = {
        f"the gradient of output {index}": fill(tuple(result.shape), result.dtype, "normal", subject.seed + index).to(
            result.device
        )
        for index, result in enumerate(results)
    }
    padded, added = pad_tensors(given, around)
    call.inputs = [*call.inputs, *added]
    found = torch.autograd.grad(results, list(leaves.values()), list(padded.values()), allow_unused=True)
    for name, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            call.results[f"the gradient of {name}"] = gradient


def _named(subject: Subject, outputs: list[Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
    named = {f"output {index}": output for index, output in enumerate(outputs)}
    return named | {name: values[name] for name in subject.mutated if isinstance(values[name], Tensor)}
