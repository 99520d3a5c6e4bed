"""The contenders of benchmarks/call_time.py: statements with their names, for each row of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from blend import blend
from torch import Tensor

from opsmith.ops.add2 import add2

__all__ = ["ROWS", "Contender", "contenders"]

ELEMENTS = 8

# Row -> what it says.
ROWS = {
    "no gradient": "a sum of two tensors, no gradient needed",
    "gradient, forward": "the same where a gradient is needed, forward alone",
    "gradient, forward and backward": "forward, and torch.autograd.grad with a given gradient",
    "eight arguments": "four tensors, two ints, a float and a keyword, no gradient needed",
}


@dataclass(frozen=True)
class Contender:
    """A statement, and the names that it uses. It is compiled into the loop that is timed, with nothing around it."""

    statement: str
    names: Mapping[str, Any]


@torch.library.custom_op("call_time::add_in_python", mutates_args=())
def add_in_python(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b: what PyTorch's documentation says to write for an operator of one's own."""
    return a + b


add_in_python.register_fake(lambda a, b: torch.empty_like(a))
torch.library.register_autograd("call_time::add_in_python", lambda ctx, gradient: (gradient, gradient))


def contenders(row: str, device: str) -> dict[str, Contender]:
    """Return who takes part in a row; the first is ours, called as users call it."""
    if row == "eight arguments":
        return _of_eight_arguments(device)
    add2.load()
    requires_grad = row != "no gradient"
    a, b = (torch.randn(ELEMENTS, device=device, requires_grad=requires_grad) for _ in "ab")
    names = {"a": a, "b": b, "g": torch.ones(ELEMENTS, device=device), "grad": torch.autograd.grad}
    # Given the gradient, nothing but the operator, its backward and the engine is timed: `.sum().backward()` would add two
    # more operators and the accumulation into `.grad` to both sides, and bring their ratio closer to 1.
    statement = "grad(f(a, b), (a, b), g)" if row.endswith("backward") else "f(a, b)"
    functions = {
        "opsmith": add2,
        "torch.add": torch.add,
        "torch.library.custom_op": add_in_python,
        "opsmith through torch.ops": torch.ops.opsmith.add2,
    }
    return {name: Contender(statement, {**names, "f": function}) for name, function in functions.items()}


def _of_eight_arguments(device: str) -> dict[str, Contender]:
    """Return ours, the operators of PyTorch that come closest, and one that does less.

    `native_group_norm` has three tensors, four ints and a float; `native_batch_norm` five tensors, a bool and two floats.
    Both check and unpack as many arguments as ours and do next to no work on 8 elements, but they return three tensors
    where ours returns one. The faster of the two is the baseline. As that favours ours, `addcmul` stands beside them: one
    result from three tensors and a keyword, so less of everything.
    """
    x, y, low, high = (torch.randn(ELEMENTS, device=device) for _ in range(4))
    image = torch.randn(1, 2, 4, device=device)
    ones, zeros = torch.ones(2, device=device), torch.zeros(2, device=device)
    return {
        "opsmith": Contender(
            "f(x, y, low, high, 2, 3, 0.5, bias=0.25)", {"f": blend, "x": x, "y": y, "low": low, "high": high}
        ),
        "torch.native_group_norm": Contender(
            "f(x, w, b, 1, 2, 4, 1, 1e-5)", {"f": torch.native_group_norm, "x": image, "w": ones, "b": zeros}
        ),
        "torch.native_batch_norm": Contender(
            "f(x, w, b, m, v, False, 0.1, 1e-5)",
            {"f": torch.native_batch_norm, "x": image, "w": ones, "b": zeros, "m": zeros, "v": ones},
        ),
        "torch.addcmul": Contender("f(x, y, low, value=0.5)", {"f": torch.addcmul, "x": x, "y": y, "low": low}),
    }
