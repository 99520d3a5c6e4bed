"""Computes the gradients of a call, and distinguishes a refusal to differentiate from a defect.

The gradients are the same for the kernel and the reference: of the same inputs, through the same outputs, for the same
gradients of the outputs. Those are random but fixed, and rounded to the element type under check, so that float64 and
float16 see the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import GradientError
from opsmith.subject.case import Case
from opsmith.subject.layouts import lay_out
from opsmith.subject.subject import Subject
from opsmith.subject.values import fill

__all__ = [
    "GradientRequest",
    "NoGradientError",
    "as_function",
    "as_result",
    "differentiable_inputs",
    "differentiable_outputs",
    "first_line",
    "gradients",
    "has_autograd_kernel",
    "is_generated",
    "is_refusal",
    "leaves_of",
    "materialized",
    "no_gradient_registered",
    "outputs_and_gradients",
    "results_and_gradients",
    "second_gradients",
    "with_leaves",
]

# What PyTorch and others say where something cannot be differentiated; everything else that is raised is a defect.
_REFUSALS = (
    "no autograd formula",
    "not implemented",
    "not been implemented",
    "not supported",
    "does not support",
    "once_differentiable",
    "cannot be differentiated",
    "forward AD",
    "forward-mode",
    "requires grad",
    "setup_context",
    "does not have a jvp",
)
_UNREGISTERED = "an autograd kernel was not registered"


class NoGradientError(Exception):
    """Nothing that was returned depends on the inputs, as far as autograd knows."""


@dataclass(frozen=True)
class GradientRequest:
    """Which gradients are taken: of which inputs (`x`, `levels[0]`), through which outputs by index.

    `layout` is how the gradients of the outputs lie: a name of the layouts' table, or "summed", as `.sum()` gives them.
    `dtype` is the element type they are rounded to.
    """

    inputs: tuple[str, ...]
    outputs: tuple[int, ...]
    layout: str = "contiguous"
    dtype: str = "float64"


def differentiable_inputs(subject: Subject, case: Case) -> tuple[str, ...]:
    """Return the floating-point tensors of a case that have a gradient by the definition."""
    return tuple(
        name
        for name, recipe in case.tensors().items()
        if name.partition("[")[0] in subject.differentiable and getattr(torch, recipe.dtype).is_floating_point
    )


def differentiable_outputs(subject: Subject, case: Case, inputs: Iterable[str]) -> tuple[int, ...]:
    """Return the outputs of the reference that have a gradient; raises what the reference raises."""
    found = _with_gradient(subject, case, inputs)
    declared = subject.differentiable_outputs
    return tuple(index for index in found if declared is None or index in declared)


def _with_gradient(subject: Subject, case: Case, inputs: Iterable[str]) -> list[int]:
    """Return which outputs require a gradient: in the case's types, or in float64 where those lack a function."""
    pinned = subject.signature.pinned if subject.signature is not None else frozenset()
    given, _ = with_leaves(case.build(), inputs)
    try:
        results = subject.results(subject.reference, given)
    except Exception:
        given, _ = with_leaves(case.changed(kept=pinned, dtype="float64").build(), inputs)
        results = subject.results(subject.reference, given)
    return [index for index, output in enumerate(results) if output.requires_grad]


def with_leaves(values: Mapping[str, Any], names: Iterable[str]) -> tuple[dict[str, Any], list[Tensor]]:
    """Return arguments of which the named tensors require a gradient, and those; layouts stay as they are."""
    wanted = dict.fromkeys(names)
    leaves: dict[str, Tensor] = {}

    def leaf(name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            value = value.detach()
            if name in wanted:
                leaves[name] = value.requires_grad_()
            return value
        if isinstance(value, list):
            return [leaf(f"{name}[{index}]", item) for index, item in enumerate(value)]
        return value

    given = {name: leaf(name, value) for name, value in values.items()}
    return given, [leaves[name] for name in wanted]


def leaves_of(values: Mapping[str, Any], names: Iterable[str]) -> list[Tensor]:
    """Return the named tensors of some arguments."""
    found = []
    for name in names:
        base, bracket, index = name.partition("[")
        found.append(values[base][int(index[:-1])] if bracket else values[base])
    return found


def gradients(
    subject: Subject, function: Callable[..., Any], values: Mapping[str, Any], request: GradientRequest
) -> list[Tensor | None]:
    """Return the gradients of the inputs that are requested.

    Raises NoGradientError if no output has a gradient, and whatever the forward or the backward raises.
    """
    return results_and_gradients(subject, function, values, request)[1]


def results_and_gradients(
    subject: Subject, function: Callable[..., Any], values: Mapping[str, Any], request: GradientRequest
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return all results of the call that was differentiated, detached, and the gradients; raises as `gradients`."""
    given, leaves = with_leaves(values, request.inputs)
    results = subject.results(function, given)
    outputs, weights = _requested(results, request)
    found: list[Tensor | None] = list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))
    return [result.detach() for result in results], found


def second_gradients(
    subject: Subject, function: Callable[..., Any], values: Mapping[str, Any], request: GradientRequest
) -> list[Tensor] | None:
    """Return the gradients of the first gradients: of the inputs, and then of the gradients of the outputs.

    None if the first ones have no graph; raises as `gradients`.
    """
    given, leaves = with_leaves(values, request.inputs)
    outputs, weights = outputs_and_gradients(subject, function, given, request)
    # Gradients that need none themselves would hide a refusal: once_differentiable looks at these alone.
    leaves = [*leaves, *(weight.requires_grad_() for weight in weights)]
    first = torch.autograd.grad(outputs, leaves[: len(request.inputs)], weights, allow_unused=True, create_graph=True)
    chosen = [one for one in first if one is not None and one.requires_grad]
    if not chosen:
        return None
    seconds = [fill(tuple(one.shape), one.dtype, "normal", 5003 + one.dim()).to(one.device) for one in chosen]
    # torch.autograd.grad would pass by the node that refuses, since no path leads from there to a leaf.
    torch.autograd.backward(chosen, seconds)
    return materialized([leaf.grad for leaf in leaves], leaves)


def outputs_and_gradients(
    subject: Subject, function: Callable[..., Any], given: Mapping[str, Any], request: GradientRequest
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs that are requested and have a gradient, and the gradients to begin with."""
    return _requested(subject.results(function, given), request)


def _requested(results: list[Tensor], request: GradientRequest) -> tuple[list[Tensor], list[Tensor]]:
    chosen = [index for index in request.outputs if index < len(results) and results[index].requires_grad]
    if not chosen:
        raise NoGradientError("no output requires a gradient, although inputs do")
    return [results[index] for index in chosen], [_gradient_of(results[index], index, request) for index in chosen]


def materialized(found: Iterable[Tensor | None], leaves: Iterable[Tensor]) -> list[Tensor]:
    """Return gradients with zeros where there is none."""
    return [torch.zeros_like(leaf) if one is None else one.detach() for one, leaf in zip(found, leaves, strict=True)]


def as_function(
    subject: Subject, function: Callable[..., Any], values: Mapping[str, Any], request: GradientRequest
) -> Callable[..., tuple[Tensor, ...]]:
    """Return the outputs that are requested as a function of the inputs that are; the other arguments are `values`."""

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = {name: list(value) if isinstance(value, list) else value for name, value in values.items()}
        for name, tensor in zip(request.inputs, tensors, strict=True):
            base, bracket, index = name.partition("[")
            if bracket:
                given[base][int(index[:-1])] = tensor
            else:
                given[base] = tensor
        results = subject.results(function, given)
        return tuple(results[index] for index in request.outputs)

    return call


def as_result(
    subject: Subject, function: Callable[..., Any], request: GradientRequest
) -> Callable[[Mapping[str, Any]], list[Tensor]]:
    """Return the gradients as the results of a function of the arguments, which is what the oracle expects."""

    def run(values: Mapping[str, Any]) -> list[Tensor]:
        return materialized(gradients(subject, function, values, request), leaves_of(values, request.inputs))

    return run


def is_refusal(error: BaseException) -> bool:
    """Tell whether an exception says that something cannot be differentiated, rather than that it went wrong."""
    if isinstance(error, GradientError | NotImplementedError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(words in text for words in _REFUSALS)


@contextmanager
def no_gradient_registered() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether PyTorch has warned meanwhile of an operator without any autograd kernel."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: any(_UNREGISTERED in str(warning.message) for warning in caught)


def has_autograd_kernel(subject: Subject, device: str) -> bool:
    """Tell whether the operator has a kernel where PyTorch looks for gradients; a plain function needs none.

    One whose gradient comes from the kernel of a device alone has none wherever PyTorch traces or transforms: `opcheck`
    says so, and the properties that trace do not say it again.
    """
    if subject.overload is None:
        return True
    keys = ("Autograd", f"Autograd{device.upper()}", "CompositeImplicitAutograd")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(subject.overload.name(), key) for key in keys)


def is_generated(subject: Subject, case: Case, inputs: Iterable[str], device: str) -> bool:
    """Tell whether the operator's autograd kernel is PyTorch's own: torch.library's, or the one for operators without.

    Those have no forward mode and do not work with torch.func, whatever the operator does.
    """
    given, _ = with_leaves(case.build(device), inputs)
    nodes = [type(output.grad_fn).__name__ for output in subject.results(subject.kernel, given) if output.requires_grad]
    return any(node.startswith(("GeneratedBackwardFor_", "WarnNotImplemented")) for node in nodes)


def first_line(error: BaseException) -> str:
    """Return an exception's message, without PyTorch's additions."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _gradient_of(output: Tensor, index: int, request: GradientRequest) -> Tensor:
    dtype = getattr(torch, request.dtype)
    if request.layout == "summed":
        return torch.full((), 0.75, dtype=output.dtype, device=output.device).expand(output.shape)
    numbers = fill(tuple(output.shape), dtype, "normal", 4001 + index)
    return lay_out(numbers.to(output.device, output.dtype), request.layout)
