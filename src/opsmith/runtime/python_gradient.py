"""Registers an operator's gradient in Python, for when the bridge is not built yet or cannot be built.

It works with every torch and needs no compiler. Results are the bridge's; each call takes some microseconds more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from opsmith.errors import GradientError
from opsmith.runtime.arguments import check_call
from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.differentiate import Body, Place, map_tensors, tensors_of
from opsmith.runtime.gradient_plan import GradientPlan
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.signature import Signature
from opsmith.spec.sizes import plan_sizes

__all__ = ["register_python_gradient"]


def register_python_gradient(plan: GradientPlan, signature: Signature, body: Body, lib: torch.library.Library) -> None:
    """Register the kernels that the plan calls for, under the Autograd key and, for writes, under ADInplaceOrView."""
    overload = overload_of(plan.operator_name)
    name = signature.name
    lib.impl(name, _autograd_kernel(plan, signature, body, overload), "Autograd", with_keyset=True)
    if plan.mutated:
        lib.impl(name, _counting_kernel(plan, signature, overload), "ADInplaceOrView", with_keyset=True)


@dataclass(frozen=True)
class _Call:
    """One call on its way through an autograd function, which itself sees only the tensors that have gradients."""

    keys: torch._C.DispatchKeySet
    values: Sequence[Any]  # all arguments in order, defaults too


def _arrange(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return all arguments in order. PyTorch leaves out those that have their defaults."""
    rest = signature.parameters[len(args) :]
    return [*args, *[kwargs.get(parameter.name, parameter.default) for parameter in rest]]


def _separate(signature: Signature, values: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return arguments in order as positional ones and keyword-only ones."""
    by_keyword = {
        parameter.name: value
        for parameter, value in zip(signature.parameters, values, strict=True)
        if parameter.keyword_only
    }
    return values[: len(values) - len(by_keyword)], by_keyword


def _autograd_kernel(plan: GradientPlan, signature: Signature, body: Body, overload: Any) -> Any:
    function = _make_function(plan, signature, body, overload)
    sizes = plan_sizes(signature)
    differentiable = [index for index, flag in enumerate(plan.differentiable_inputs) if flag]

    def autograd(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        values = _arrange(signature, args, kwargs)
        tensors = [tensor for index in differentiable for tensor in tensors_of(values[index])]
        tangents = _have_tangents(tensors)
        if not tangents and not (torch.is_grad_enabled() and torch._C._any_requires_grad(*tensors)):
            with torch._C._AutoDispatchBelowAutograd():
                return overload.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)
        if plan.refusal:
            raise GradientError(plan.refusal)
        if tangents or torch._C._are_functorch_transforms_active():
            # An autograd function in Python can do neither. The body is made of operators that can.
            check_call(signature, sizes, bind_arguments(signature, args, kwargs))
            results = body.results(values)
            return tuple(results) if len(results) > 1 else results[0]
        for index in plan.asked:
            values[index] = True
        return function.apply(_Call(keys, values), *tensors)

    return autograd


def _have_tangents(tensors: Sequence[Tensor]) -> bool:
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    )


def _counting_kernel(plan: GradientPlan, signature: Signature, overload: Any) -> Any:
    """Return the kernel that raises the versions of what is written to, as PyTorch's own do.

    Autograd compares versions to notice that a tensor which it saved was written to since.
    """

    def write(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        values = _arrange(signature, args, kwargs)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            result = overload.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs)
        for index in plan.mutated:
            for tensor in tensors_of(values[index]):
                torch.autograd.graph.increment_version(tensor)
        return result

    return write


def _make_function(
    plan: GradientPlan, signature: Signature, body: Body, overload: Any
) -> type[torch.autograd.Function]:
    backward_overload = overload_of(plan.backward_name) if plan.backward_name else None

    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> Any:
        args, kwargs = _separate(signature, call.values)
        with torch._C._AutoDispatchBelowAutograd():
            result = overload.redispatch(call.keys & torch._C._after_autograd_keyset, *args, **kwargs)
        outputs = result if isinstance(result, tuple) else (result,)
        saved: list[Tensor] = []

        def stow(tensor: Tensor) -> int:
            saved.append(tensor)
            return len(saved) - 1

        ctx.set_materialize_grads(False)
        flags = plan.differentiable_outputs
        ctx.mark_non_differentiable(*[output for output, flag in zip(outputs, flags, strict=True) if not flag])
        ctx.opsmith_inputs = {index: map_tensors(stow, call.values[index]) for index in plan.saved_inputs}
        ctx.opsmith_outputs = {index: map_tensors(stow, outputs[index]) for index in plan.saved_outputs}
        ctx.opsmith_forms = [(output.shape, output.dtype, output.device) for output in outputs]
        ctx.opsmith_counts = [len(tensors_of(value)) for value in call.values]
        ctx.save_for_backward(*saved)
        return result

    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[1:]
        if all(gradient is None for gradient in gradients):
            return (None, *[None] * len(needed))
        first, positions = _positions(plan, ctx.opsmith_counts)

        def needs(index: int) -> bool:
            # A kernel writes the gradient of an optional tensor that was not given, too; autograd must not see it.
            return bool(ctx.opsmith_counts[index] > 0 and needed[positions[first[index]]])

        answer: list[Tensor | None] = [None] * len(needed)
        saved = ctx.saved_tensors
        inputs = {index: _restore(value, saved) for index, value in ctx.opsmith_inputs.items()}

        def through_body(given: Sequence[Tensor | None], wanted: Sequence[int]) -> None:
            arguments = [inputs.get(index) for index in range(len(plan.differentiable_inputs))]
            for tensor, found in zip(wanted, body.backward(arguments, given, wanted), strict=True):
                if found is not None:
                    before = answer[positions[tensor]]
                    answer[positions[tensor]] = found if before is None else before + found

        passed = {positions[first[index]]: gradients[output] for index, output in plan.passed if needs(index)}
        for position, gradient in passed.items():
            answer[position] = gradient
        wanted = [tensor for tensor, position in positions.items() if needed[position]]
        to_compute = [tensor for tensor in wanted if positions[tensor] not in passed]
        if backward_overload is None:
            if to_compute:
                through_body(gradients, to_compute)
            return (None, *answer)
        # A gradient of an output that only the backward sees arrives where a gradient is itself differentiated.
        hidden = [gradient if index in plan.body_outputs else None for index, gradient in enumerate(gradients)]
        if to_compute and any(g is not None for i, g in enumerate(gradients) if i not in plan.body_outputs):
            outputs = {index: _restore(value, saved) for index, value in ctx.opsmith_outputs.items()}
            sources = {"input": inputs.__getitem__, "output": outputs.__getitem__, "needs": needs}
            arguments = [
                sources[source](index)
                if source in sources
                else _gradient(gradients[index], ctx.opsmith_forms[index], optional)
                for source, index, optional in plan.arguments
            ]
            found = backward_overload(*arguments)
            for index, gradient in zip(plan.results, found if isinstance(found, tuple) else (found,), strict=True):
                if needs(index):
                    answer[positions[first[index]]] = gradient
        if any(gradient is not None for gradient in hidden):
            through_body(hidden, wanted)
        return (None, *answer)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(signature.name, (torch.autograd.Function,), members)


def _positions(plan: GradientPlan, counts: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Return the number of each argument's first tensor, and for each tensor with gradients its place among those."""
    first: list[int] = []
    positions: dict[int, int] = {}
    number = 0
    for count, differentiable in zip(counts, plan.differentiable_inputs, strict=True):
        first.append(number)
        for tensor in range(number, number + count):
            if differentiable:
                positions[tensor] = len(positions)
        number += count
    return first, positions


def _gradient(given: Tensor | None, form: tuple[Any, ...], optional: bool) -> Tensor | None:
    if given is not None or optional:
        return given
    shape, dtype, device = form
    return torch.zeros(shape, dtype=dtype, device=device)


def _restore(value: Any, saved: Sequence[Tensor]) -> Any:
    """Undo `stow`: put the saved tensors where their places stand."""
    if isinstance(value, Place):
        return saved[value]
    if isinstance(value, list):
        return [_restore(item, saved) for item in value]
    return value
