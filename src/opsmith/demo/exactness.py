"""How far kernels are from their reference in float64: value and gradient, for each element type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.demo.cases import DTYPES
from opsmith.demo.table import Table, mark
from opsmith.spec.definition import Device

__all__ = ["ErrorRow", "error_table", "measure", "measure_all"]

# What is granted, in units of the element type's epsilon and relative to max(1, |reference|): for the value, and for
# the gradient, which goes through a hidden state that was rounded. A matrix product rounds its sums on the way.
_TOLERANCES = {"lltm_gates": (4.0, 16.0), "lltm_cell": (32.0, 64.0)}


@dataclass(frozen=True)
class ErrorRow:
    """The largest error of an operator's value or gradient, and what is granted, both in units of epsilon."""

    operator: str
    what: str
    device: str
    dtype: str
    error_eps: float
    tolerance_eps: float

    @property
    def is_within(self) -> bool:
        """Whether the error is within the tolerance; NaN is not."""
        return self.error_eps <= self.tolerance_eps


def measure_all(devices: Sequence[Device], *, seed: int) -> list[ErrorRow]:
    """Return the errors of lltm_gates and lltm_cell."""
    from opsmith.ops.lltm import lltm_cell, lltm_gates

    random = torch.Generator().manual_seed(seed)
    inputs = {"lltm_gates": _gates_inputs(random), "lltm_cell": _cell_inputs(random)}
    rows: list[ErrorRow] = []
    for operator in (lltm_gates, lltm_cell):
        name = operator.definition.name
        for device in devices:
            for dtype in DTYPES:
                rows += measure(name, operator, operator.reference, inputs[name], dtype, device)
    return rows


def measure(
    name: str,
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Sequence[Tensor],
    dtype: str,
    device: str = "cpu",
) -> tuple[ErrorRow, ErrorRow]:
    """Return the largest error of value and gradient over some inputs, which are float64 and are rounded to `dtype`.

    The gradient is what autograd makes of `kernel`; the truth is the body in float64, differentiated by PyTorch, so a
    backward kernel is never compared with itself.
    """
    given = [value.to(DTYPES[dtype]) for value in inputs]
    values, grads = _differentiate(kernel, [value.to(device) for value in given])
    exact_values, exact_grads = _differentiate(reference, [value.double() for value in given])
    epsilon = torch.finfo(DTYPES[dtype]).eps
    errors = {
        "value": _largest_error(values, exact_values[: len(values)]) / epsilon,
        "gradient": _largest_error(grads, exact_grads) / epsilon,
    }
    granted = dict(zip(errors, _TOLERANCES[name], strict=True))
    value, gradient = (ErrorRow(name, what, device, dtype, errors[what], granted[what]) for what in errors)
    return value, gradient


def error_table(rows: Sequence[ErrorRow]) -> Table:
    """Return the errors with one row for each operator and quantity, and one column for each element type."""
    lines: dict[tuple[str, str, str, float], Mapping[str, ErrorRow]] = {}
    for row in rows:
        key = (row.operator, row.what, row.device, row.tolerance_eps)
        lines[key] = {**lines.get(key, {}), row.dtype: row}
    cells = tuple(
        (operator, what, device, f"{tolerance:g}", *(_cell(found[dtype]) for dtype in DTYPES))
        for (operator, what, device, tolerance), found in lines.items()
    )
    note = (
        "Largest error against the body in float64, in units of the type's epsilon, relative to max(1, |reference|). "
        "The gradient's truth is the body, differentiated by PyTorch. Epsilon: "
        + ", ".join(f"{name} {torch.finfo(dtype).eps:.1e}" for name, dtype in DTYPES.items())
        + "."
    )
    columns = ("operator", "what", "device", "granted", *DTYPES)
    return Table("Error against float64", columns, "lllr" + "r" * len(DTYPES), cells, note)


def _cell(row: ErrorRow) -> str:
    return f"{row.error_eps:.2f} {mark(row.is_within)}"


def _differentiate(function: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return hidden state and cell, and the gradients of a sum of both with fixed weights."""
    leaves = [value.detach().requires_grad_() for value in inputs]
    # The body of lltm_cell returns what the backward needs, too.
    outputs = list(function(*leaves))[:2]
    weights = [_weights(output) for output in outputs]
    return outputs, list(torch.autograd.grad(outputs, leaves, weights))


def _weights(output: Tensor) -> Tensor:
    """Return weights between -1 and 1 that every element type holds exactly."""
    steps = torch.arange(output.numel(), device=output.device) % 17
    return ((steps - 8) / 8).to(output.dtype).view(output.shape)


def _largest_error(found: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """Return the largest error relative to max(1, |exact|); NaN or a wrong shape anywhere makes it infinite."""
    largest = 0.0
    for one, truth in zip(found, exact, strict=True):
        if one.shape != truth.shape:
            return float("inf")
        error = (one.detach().cpu().double() - truth.detach()).abs() / truth.detach().abs().clamp(min=1)
        largest = max(largest, error.nan_to_num(nan=float("inf")).max().item() if error.numel() else 0.0)
    return largest


def _gates_inputs(random: torch.Generator) -> list[Tensor]:
    batch, state = 64, 128
    gates = 3 * torch.randn(batch, 3 * state, generator=random, dtype=torch.float64)
    return [gates, torch.randn(batch, state, generator=random, dtype=torch.float64)]


def _cell_inputs(random: torch.Generator) -> list[Tensor]:
    batch, inputs, state = 16, 32, 128
    shapes = ((batch, inputs), (batch, state), (batch, state), (3 * state, state + inputs), (3 * state,))
    values = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    values[3] /= (state + inputs) ** 0.5
    return values
