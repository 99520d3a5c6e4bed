"""How an operator whose arguments are all tensors gets its gradient: by an autograd function that does nothing else.

`torch.library.register_autograd` serves every operator alike: each call looks through the schema for defaults, and
carries lists and keyword arguments along. That takes as long as a small kernel. Where all arguments are tensors, what
is to be saved, passed and returned is known when the operator is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.spec.definition import Definition
from opsmith.spec.gradient import Wiring
from opsmith.spec.signature import Kind

__all__ = ["Backward", "register_tensor_gradient", "takes_tensors_only"]


@dataclass(frozen=True)
class Backward:
    """What computes an operator's gradients.

    `call` runs the operator of the backward definition. `again` takes its place where the gradients shall themselves be
    differentiated and `call` does not allow it: from the saved tensors, the flags of what is needed, and the gradients of
    the outputs it makes a gradient or None for each argument.
    """

    call: Callable[..., Any]
    again: Callable[[Sequence[Tensor], Sequence[bool], Sequence[Tensor]], Sequence[Tensor | None]] | None


def takes_tensors_only(definition: Definition) -> bool:
    """Whether every argument is a tensor that every call gives."""
    return all(p.kind is Kind.TENSOR and not p.keyword_only for p in definition.signature.parameters)


def register_tensor_gradient(
    definition: Definition, overload: Any, backward: Backward, lib: torch.library.Library
) -> None:
    """Register the gradient of an operator for which `takes_tensors_only` holds; `overload` is the operator itself."""
    function = _make_function(definition, overload, backward)

    def autograd(keys: torch._C.DispatchKeySet, *args: Tensor) -> Any:
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            return function.apply(keys, *args)
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & torch._C._after_autograd_keyset, *args)

    lib.impl(definition.name, autograd, "Autograd", with_keyset=True)


@dataclass(frozen=True)
class _Layout:
    """Which tensors are saved, and where the backward finds its arguments: all that a call does not have to work out."""

    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    arguments: tuple[int, ...]  # of the backward: places in (*gradients, *saved inputs, *saved outputs)
    answers: tuple[int | None, ...]  # for each argument of the operator: which result of the backward is its gradient


def _plan_layout(wiring: Wiring, inputs: int, outputs: int) -> _Layout:
    saved = {
        source: tuple(sorted({argument.index for argument in wiring.arguments if argument.source == source}))
        for source in ("input", "output")
    }
    known = [("gradient", index) for index in range(outputs)]
    known += [(source, index) for source in ("input", "output") for index in saved[source]]
    return _Layout(
        saved["input"],
        saved["output"],
        tuple(known.index((argument.source, argument.index)) for argument in wiring.arguments),
        tuple(wiring.inputs.index(index) if index in wiring.inputs else None for index in range(inputs)),
    )


def _make_function(definition: Definition, overload: Any, through: Backward) -> type[torch.autograd.Function]:
    assert definition.wiring is not None
    outputs = definition.signature.outputs
    layout = _plan_layout(definition.wiring, len(definition.signature.parameters), len(outputs))
    plain = [index for index, output in enumerate(outputs) if not output.differentiable]

    def forward(ctx: Any, keys: torch._C.DispatchKeySet, *args: Tensor) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            result = overload.redispatch(keys & torch._C._after_autograd_keyset, *args)
        results = (result,) if len(outputs) == 1 else result
        if plain:
            ctx.mark_non_differentiable(*[results[index] for index in plain])
        saved = [args[index] for index in layout.saved_inputs]
        ctx.save_for_backward(*saved, *[results[index] for index in layout.saved_outputs])
        return result

    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        if not torch.is_grad_enabled():
            # Nothing is to be recorded, so the operator's own autograd kernel, in Python too, is passed by.
            with torch._C._AutoDispatchBelowAutograd():
                found = call(gradients, saved)
        elif through.again is None:
            found = call(gradients, saved)
        else:
            return (None, *through.again(saved, ctx.needs_input_grad[1:], gradients))
        return (None, *[None if place is None else found[place] for place in layout.answers])

    def call(gradients: Sequence[Tensor], saved: Sequence[Tensor]) -> Sequence[Tensor]:
        known = (*gradients, *saved)
        found = through.call(*[known[place] for place in layout.arguments])
        return found if isinstance(found, tuple) else (found,)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(definition.name, (torch.autograd.Function,), members)
