"""Operators of x^3 whose autograd kernel is a torch.autograd.Function, with one thing wrong in it or in the rule of vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Row = Float[Tensor, "N"]
_library = torch.library.Library("kit_functions", "DEF")


def cube_reference(x: Row) -> Row:
    """x^3."""
    return x**3


def right_backward(x: Tensor, grad: Tensor) -> Tensor:
    """3 x^2 grad."""
    return 3 * x**2 * grad


def right_jvp(x: Tensor, tangent: Tensor) -> Tensor:
    """3 x^2 tangent."""
    return 3 * x**2 * tangent


def right_rule(op: Callable[[Tensor], Tensor], info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
    """All samples in one call."""
    x = x.movedim(in_dims[0], 0)
    return op(x.reshape(-1)).reshape(x.shape), 0


def make_cube(
    name: str,
    backward: Callable[[Tensor, Tensor], Tensor] = right_backward,
    tangent: Callable[[Tensor, Tensor], Tensor] | None = right_jvp,
    rule: Callable[..., Any] | None = right_rule,
    *,
    is_function: bool = False,
) -> Any:
    """Return an operator with the kernels and rules that are given, or a Python function around it."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            with torch._C._AutoDispatchBelowAutograd():
                return packet(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return backward(ctx.saved_tensors[0], grad)

    if tangent is not None:
        Cube.jvp = staticmethod(lambda ctx, one: tangent(ctx.saved_tensors[0], one))  # type: ignore[method-assign]
    _library.define(f"{name}(Tensor x) -> Tensor")
    packet = getattr(torch.ops.kit_functions, name)
    _library.impl(name, lambda x: (x * x * x).contiguous(), "CPU")
    _library.impl(name, lambda x: x.new_empty(x.shape), "Meta")
    if not is_function:
        _library.impl(name, Cube.apply, "Autograd")
    if rule is not None:
        torch.library.register_vmap(f"kit_functions::{name}", lambda *args: rule(packet, *args), lib=_library)
    return Cube.apply if is_function else packet


def _reads_numbers(x: Tensor, grad: Tensor) -> Tensor:
    return torch.zeros_like(x) if float(grad.abs().sum()) == 0 else 3 * x**2 * grad


def _along_0(op: Callable[[Tensor], Tensor], info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
    return op(x.reshape(-1)).reshape(x.shape), 0


def _first_of_all(op: Callable[[Tensor], Tensor], info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
    x = x.movedim(in_dims[0], 0)
    return op(x[0]).expand(x.shape), 0


def _raises(op: Callable[[Tensor], Tensor], info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
    if in_dims[0] != 0:
        raise RuntimeError("vmap: not possible along this dimension")
    return right_rule(op, info, in_dims, x)


right = make_cube("right")
refuses_jvp = make_cube("refuses_jvp", tangent=None)
zero_jvp = make_cube("zero_jvp", tangent=lambda x, tangent: torch.zeros_like(x))
wrong_jvp = make_cube("wrong_jvp", tangent=lambda x, tangent: x**2 * tangent)
right_function = make_cube("right_function", is_function=True)
reads_numbers = make_cube("reads_numbers", backward=_reads_numbers, is_function=True)
no_rule = make_cube("no_rule", rule=None)
WRONG_RULES = {
    "in_dims ignored": make_cube("along_0", rule=_along_0),
    "one sample for all": make_cube("first_of_all", rule=_first_of_all),
    "one dimension alone": make_cube("raises", rule=_raises),
}
