"""On what the builds are compared: random inputs of many sizes, layouts and element types for each operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from opsmith.demo.worker import Case
from opsmith.runtime.operator import Operator
from opsmith.spec.definition import Device

__all__ = ["DTYPES", "LAYOUTS", "make_cases"]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

LAYOUTS = ("contiguous", "transposed", "every second", "offset")

# (B, S) of lltm_gates: the tutorial's size, odd ones, vectors that are not full, empty ones, and one for several threads.
_GATES_SIZES = ((16, 128), (1, 1), (3, 5), (7, 33), (0, 8), (4, 0), (129, 257))
_QUICK_GATES_SIZES = _GATES_SIZES[:5]

# (B, I, S) of lltm_cell.
_CELL_SIZES = ((16, 32, 128), (1, 1, 1), (5, 3, 7), (0, 4, 6))

# Gates where a careless kernel overflows, cancels or loses a sign.
_CORNERS = (0.0, -0.0, 88.8, -88.8, 100.0, -100.0, 1e-7, -1e-7)


def make_cases(devices: Sequence[Device], *, seed: int, quick: bool = False) -> list[Case]:
    """Return the calls that every library has to answer alike, of forward and backward operators."""
    from opsmith.ops.lltm import lltm_cell, lltm_gates

    random = torch.Generator().manual_seed(seed)
    cases: list[Case] = []
    layouts = LAYOUTS[:3] if quick else LAYOUTS
    for dtype in DTYPES.values():
        for layout in layouts:
            for batch, state in _QUICK_GATES_SIZES if quick else _GATES_SIZES:
                cases += _calls(lltm_gates, _gates_inputs(batch, state, random), dtype, layout, devices, random)
            for batch, inputs, state in _CELL_SIZES:
                cases += _calls(lltm_cell, _cell_inputs(batch, inputs, state, random), dtype, layout, devices, random)
    return cases


def _gates_inputs(batch: int, state: int, random: torch.Generator) -> dict[str, Tensor]:
    gates = 3 * torch.randn(batch, 3 * state, generator=random, dtype=torch.float64)
    corners = torch.tensor(_CORNERS, dtype=torch.float64)[: gates.numel()]
    gates.view(-1)[: len(corners)] = corners
    return {"gates": gates, "cell": torch.randn(batch, state, generator=random, dtype=torch.float64)}


def _cell_inputs(batch: int, inputs: int, state: int, random: torch.Generator) -> dict[str, Tensor]:
    shapes = {
        "input": (batch, inputs),
        "hidden": (batch, state),
        "cell": (batch, state),
        "weight": (3 * state, state + inputs),
        "bias": (3 * state,),
    }
    values = {name: torch.randn(shape, generator=random, dtype=torch.float64) for name, shape in shapes.items()}
    values["weight"] /= (state + inputs) ** 0.5
    return values


def _calls(
    operator: Operator,
    inputs: Mapping[str, Tensor],
    dtype: torch.dtype,
    layout: str,
    devices: Sequence[Device],
    random: torch.Generator,
) -> Iterator[Case]:
    """Yield the calls of an operator and of its gradient's operator, whose arguments are found by their names."""
    definition = operator.definition
    names = [output.name for output in definition.signature.outputs]
    outputs = dict(zip(names, operator.reference(*inputs.values()), strict=True))
    grads = {
        f"grad_{name}": torch.randn(output.shape, generator=random, dtype=torch.float64)
        for name, output in outputs.items()
    }
    known = {**inputs, **outputs, **grads}
    gradient = operator.gradient
    assert gradient is not None
    for each in (definition, gradient.definition):
        arguments = [_lay_out(known[parameter.name].to(dtype), layout) for parameter in each.signature.parameters]
        shapes = ", ".join("x".join(map(str, value.shape)) for value in inputs.values())
        for device in devices:
            name = f"{each.name}, {str(dtype).removeprefix('torch.')}, {layout}, {shapes}, {device}"
            yield Case(name=name, operator=each.qualified_name, device=device, arguments=arguments)


def _lay_out(tensor: Tensor, layout: str) -> Tensor:
    """Return the same values, laid out in memory as asked; vectors have no transpose and stay as they are."""
    if layout == "transposed" and tensor.dim() == 2:
        return tensor.t().contiguous().t()
    if layout == "every second":
        wide = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1]), float("nan"))
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if layout == "offset":
        # One element past the allocation's beginning, so no vector load finds its alignment.
        room = tensor.new_full((tensor.numel() + 1,), float("nan"))
        room[1:] = tensor.reshape(-1)
        return room[1:].view(tensor.shape)
    return tensor.contiguous()
