"""Native kernels: outputs whose size depends on data, operators of PyTorch's, several sources."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith


@opsmith.op(cpu=opsmith.native("natives.cpp"), outputs=("values", "places"))
def positives(x: Float[Tensor, "N"], most: int | None = None) -> tuple[Float[Tensor, "K"], Int64[Tensor, "K"]]:
    """The positive numbers and where they are; how many there are is known to the kernel alone."""
    places = torch.nonzero(x > 0)[:most, 0]
    return x[places], places


@opsmith.op(cpu=opsmith.native("natives.cpp"))
def linear(
    x: Float[Tensor, "B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None = None
) -> Float[Tensor, "B O"]:
    """A linear layer through PyTorch's own operators."""
    return torch.nn.functional.linear(x, weight, bias)


@linear.backward()
def linear_backward(
    grad_out: Float[Tensor, "B O"],
    x: Float[Tensor, "B I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, "O"] | None,
) -> tuple[Float[Tensor, "B I"], Float[Tensor, "O I"], Float[Tensor, "O"]]: ...


@opsmith.op(
    cpu=opsmith.native("triple_entry.cpp", "triple.cpp", entry="kernels::tripled", flags=("-DOPSMITH_TEST_FLAG=1",))
)
def triple(xs: list[Float[Tensor, "_"]], factors: list[float], label: str) -> Float[Tensor, "N"]:  # noqa: F821
    """Three times the first tensor; a helper in a file of its own does it."""
    return xs[0] * 3


@opsmith.op(cpu=opsmith.native("natives.cpp", entry="lie"))
def lie(x: Float[Tensor, "N"], what: str) -> Float[Tensor, "N"]:
    """A copy; the kernel returns something else where it is told to."""
    return x.clone()


@opsmith.op(cpu=opsmith.native("natives.cpp"), outputs=("first", "second"))
def halves(x: Float[Tensor, "*b N"], lie: bool) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K"]]:
    """The two halves of each row; a lying kernel gives the second one another size."""
    first, second = x.chunk(2, -1)
    return first.clone(), second.clone()


@opsmith.op(cpu=opsmith.native("natives.cpp"), mutates="x")
def increment_(x: Int64[Tensor, "N"]) -> None:
    """Add 1 in place."""
    x.add_(1)
