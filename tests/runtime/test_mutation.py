"""Arguments that are declared as written to: every layout gets what the kernel wrote, and autograd hears of it."""

from __future__ import annotations

import pytest
import torch
from kit import elementwise, natives
from kit.agreement import agree
from torch import Tensor

from opsmith.errors import GradientError, ShapeError

pytestmark = pytest.mark.compile


def layouts() -> dict[str, Tensor]:
    return {
        "contiguous": torch.randn(4, 6),
        "transposed": torch.randn(6, 4).t(),
        "sliced": torch.randn(4, 12)[:, ::2],
        "offset": torch.randn(25)[1:].view(4, 6),
        "empty": torch.randn(4, 0),
    }


@pytest.mark.parametrize("layout", layouts())
def test_elementwise_in_place(layout: str) -> None:
    agree(elementwise.scale_, layouts()[layout], 1.5)


def test_what_lies_between_the_elements_stays() -> None:
    base = torch.ones(10)
    elementwise.scale_(base[::2], 3.0)
    assert base.tolist() == [3, 1] * 5


def test_a_strided_argument_is_written_through() -> None:
    agree(elementwise.zero_diagonal, torch.randn(5, 10)[:, ::2])
    agree(elementwise.zero_diagonal, torch.randn(5, 5).t())


def test_a_group_that_had_to_be_copied_is_copied_back() -> None:
    agree(elementwise.zero_rows, torch.randn(4, 3, 5).transpose(0, 1))
    agree(elementwise.zero_rows, torch.randn(5))


def test_mutation_beside_an_output_and_contiguous() -> None:
    total = torch.randn(12, dtype=torch.float64)[::3]
    out = agree(elementwise.accumulate, total, torch.randn(3, 4, dtype=torch.float64), tolerance=1e-15)
    assert out.shape == (4,)


def test_an_optional_argument_is_written_to_where_it_is_given() -> None:
    count = torch.tensor([7])
    elementwise.accumulate(torch.zeros(4), torch.ones(3, 4), count)
    assert count.item() == 10


def test_a_native_kernel_writes_in_place() -> None:
    agree(natives.increment_, torch.arange(10)[::3])


def test_an_expanded_argument_cannot_be_written_to() -> None:
    with pytest.raises(ShapeError, match=r"scale_\(\): x is written to, but it is expanded"):
        elementwise.scale_(torch.ones(1).expand(3), 2.0)
    with pytest.raises(RuntimeError, match="x is written to, but it is expanded"):
        torch.ops.kit.scale_(torch.ones(1).expand(3), 2.0)


def test_autograd_notices_the_write() -> None:
    x = torch.ones(3, requires_grad=True)
    square = (y := x * 1) ** 2
    version = y._version
    with torch.no_grad():
        elementwise.scale_(y, 2.0)
    assert y._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def test_a_gradient_through_a_write_is_refused() -> None:
    def scale_(x: Tensor, factor: float) -> None:
        torch.ops.kit.scale_(x, factor)  # found at the call: the one before it loads the operator

    x = torch.ones(3, requires_grad=True)
    for call in (elementwise.scale_, scale_):
        with pytest.raises(GradientError, match=r"scale_\(\) writes to x and has no gradient. Call it under"):
            call(x * 1, 2.0)
    with torch.no_grad():
        elementwise.scale_(x, 2.0)
    assert x.tolist() == [2, 2, 2]


def test_compiled_functions_keep_the_write() -> None:
    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def twice(x: Tensor) -> Tensor:
        y = x + 1
        elementwise.scale_(y, 2.0)
        elementwise.scale_(x, 3.0)
        return x + y

    x = torch.ones(5)
    assert twice(x).tolist() == [7] * 5
    assert x.tolist() == [3] * 5
