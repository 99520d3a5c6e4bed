"""Under torch.autocast an operator casts what its rule says, and nothing else; gradients come back in the input's type."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from jaxtyping import Float
from rules_kit import operators
from torch import Tensor

import opsmith
from opsmith.errors import DefinitionError, DtypeError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTM, lltm_cell, lltm_cell_backward, lltm_gates
from opsmith.ops.sigmoid import sigmoid

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


def t(dtype: torch.dtype, *sizes: int) -> Tensor:
    return torch.ones(sizes or (3,)).to(dtype)


@pytest.fixture(params=[BF16, F16], ids=["bfloat16", "float16"])
def low(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """Run a test in an autocast region of each type."""
    with torch.autocast("cpu", request.param):
        yield request.param


PROMOTED = [
    ((BF16, F32, F32, (F32,)), F32),
    ((F32, BF16, BF16, (BF16, F16)), F32),
    ((F16, F16, F16, (F16,)), F16),
    ((BF16, F16, BF16, ()), F32),
    ((F64, F64, BF16, (F64,)), F64),
]


@pytest.mark.parametrize(("given", "expected"), PROMOTED)
def test_promote_takes_the_widest_of_what_is_given(given: tuple[Any, ...], expected: torch.dtype, low: torch.dtype):
    x, y, pinned, others = t(given[0]), t(given[1]), t(given[2]), [t(dtype) for dtype in given[3]]
    found = operators.promoted(x, y, pinned, others)
    assert found.dtype == expected
    assert found.tolist() == [3.0 + len(others)] * 3


def test_promote_leaves_wider_types_and_integers_alone(low: torch.dtype):
    with pytest.raises(DtypeError, match="y is float32, expected float64 as x"):
        operators.promoted(t(F64), t(F32), t(F32), [])
    with pytest.raises(DtypeError, match="y is int64, expected float32 as x"):
        operators.any_numbers(t(F32), torch.ones(3, dtype=torch.int64))
    assert operators.any_numbers(*[torch.ones(3, dtype=torch.int64)] * 2).dtype == torch.int64


def test_low_takes_autocast_s_type_where_the_operator_has_it(low: torch.dtype):
    expected = BF16 if low is BF16 else F32  # the operator has no float16: the widest of what is given is left
    assert operators.low(t(F32)).dtype == expected
    assert operators.low(t(F32), t(BF16), factor=2.0).dtype == expected
    assert operators.low(t(F64), t(F64)).dtype == F64


def test_float32_casts_up_and_pinned_arguments_are_what_they_are_pinned_to(low: torch.dtype):
    assert operators.high(t(BF16), t(BF16)).dtype == F32
    assert operators.high(t(F64), t(F64)).dtype == F64


def test_without_a_rule_nothing_is_cast(low: torch.dtype):
    with pytest.raises(DtypeError, match="y is bfloat16, expected float32 as x"):
        operators.as_given(t(F32), t(BF16))


def test_an_argument_that_is_written_to_is_not_cast(low: torch.dtype):
    total = t(BF16)
    operators.add_to(total, t(BF16))
    assert total.tolist() == [2.0] * 3
    with pytest.raises(DtypeError, match="x is float32, expected bfloat16 as total"):
        operators.add_to(total, t(F32))


@pytest.mark.parametrize("region", [{"device_type": "cpu", "enabled": False}, {"device_type": "cuda", "dtype": BF16}])
def test_nothing_changes_outside_of_the_device_s_regions(region: dict[str, Any]):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a region of CUDA where there is none
        autocast = torch.autocast(**region)
    with autocast:
        assert operators.low(t(F32)).dtype == F32
        with pytest.raises(DtypeError, match="y is bfloat16, expected float32 as x"):
            operators.promoted(t(F32), t(BF16), t(F32), [])


def test_gradients_come_back_in_the_type_of_the_input():
    a = torch.randn(3, 4, requires_grad=True)
    b = torch.randn(4, 2, dtype=BF16, requires_grad=True)
    with torch.autocast("cpu"):
        out = operators.matrix_product(a, b)
    assert out.dtype == F32
    out.sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (F32, BF16)
    torch.testing.assert_close(a.grad, b.detach().float().sum(1).expand(3, 4))
    torch.testing.assert_close(b.grad, a.detach().sum(0)[:, None].expand(4, 2).bfloat16())


@pytest.mark.compile
def test_the_library_s_elementwise_operators_promote(low: torch.dtype):
    assert sigmoid(t(F32)).dtype == F32
    assert add2(t(F32), t(low)).dtype == F32
    assert add2(t(low), t(low)).dtype == low
    hidden, cell = lltm_gates(t(low, 2, 12), t(F32, 2, 4))
    assert (hidden.dtype, cell.dtype) == (F32, F32)


def cell_arguments(dtype: torch.dtype = F32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(sizes).to(dtype).requires_grad_() for sizes in ((3, 2), (3, 4), (3, 4), (12, 6), (12,))]


@pytest.mark.compile
def test_the_cell_runs_in_the_low_type(low: torch.dtype):
    arguments = cell_arguments()
    hidden, cell = lltm_cell(*arguments)
    assert (hidden.dtype, cell.dtype) == (low, low)
    with torch.autocast("cpu", enabled=False):
        expected = lltm_cell(*[argument.to(low) for argument in arguments])
    torch.testing.assert_close((hidden, cell), expected)
    found = torch.autograd.grad((hidden * cell).sum(), arguments)
    assert {gradient.dtype for gradient in found} == {F32}
    exact = torch.autograd.grad((expected[0] * expected[1]).sum(), arguments)
    torch.testing.assert_close(found, exact)


@pytest.mark.compile
def test_a_sequence_and_its_gradients_are_close_to_those_in_float32(low: torch.dtype):
    torch.manual_seed(0)
    module = LLTM(5, 8)
    inputs = torch.randn(6, 3, 5)
    results = []
    for enabled in (True, False):
        module.zero_grad()
        with torch.autocast("cpu", low, enabled=enabled):
            outputs = module(inputs)[0]
            outputs.float().square().sum().backward()
        results.append([outputs.float(), *[parameter.grad for parameter in module.parameters()]])
    torch.testing.assert_close(*results, rtol=0.1, atol=0.1)
    assert not torch.equal(results[0][0], results[1][0])


@pytest.mark.compile
def test_under_vmap_the_rule_is_the_same(low: torch.dtype):
    arguments = [argument.detach() for argument in cell_arguments()]
    expected = lltm_cell(*arguments)
    for shared in (True, False):  # by the batch, and through the body
        weights = arguments[3:] if shared else [weight.expand(5, *weight.shape) for weight in arguments[3:]]
        in_dims = (0, 0, 0, *[None if shared else 0] * 2)
        given = [argument.expand(5, *argument.shape) for argument in arguments[:3]]
        hidden, cell = torch.vmap(lltm_cell, in_dims)(*given, *weights)
        assert (hidden.dtype, cell.dtype) == (low, low)
        torch.testing.assert_close((hidden[2], cell[2]), expected, rtol=0.05, atol=0.05)
    assert torch.vmap(add2)(t(F32, 2, 3), t(low, 2, 3)).dtype == F32


@pytest.mark.compile
def test_compiled_code_casts_as_eager_code_does(low: torch.dtype):
    arguments = [argument.detach() for argument in cell_arguments()]
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(*given: Tensor) -> Any:
        return lltm_cell(*given)

    torch.testing.assert_close(compiled(*arguments), lltm_cell(*arguments))


@pytest.mark.compile
def test_a_backward_in_the_region_takes_what_the_forward_saved(low: torch.dtype):
    grads = [torch.ones(3, 4, dtype=low)] * 2
    saved = [tensor.to(low) for tensor in cell_arguments()]
    found = lltm_cell_backward(*grads, *saved, torch.zeros(3, 12, dtype=low), torch.zeros(3, 4, dtype=low))
    assert {gradient.dtype for gradient in found} == {low}


@pytest.mark.parametrize(
    ("rule", "mutates", "words"),
    [
        ("half", (), "f: autocast= is 'half'; it must be 'promote', 'low', 'float32' or None"),
        ("low", "x", "f: autocast='low' would write to a cast copy of x instead of to the argument"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule: Any, mutates: Any, words: str):
    def f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x + 1

    with pytest.raises(DefinitionError) as error:
        opsmith.op(autocast=rule, mutates=mutates)(f)
    assert words in str(error.value)


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_on_a_gpu(dtype: torch.dtype):
    arguments = [argument.detach().cuda().requires_grad_() for argument in cell_arguments()]
    with torch.autocast("cuda", dtype):
        hidden, cell = lltm_cell(*arguments)
        assert add2(t(F32).cuda(), t(dtype).cuda()).dtype == F32
    assert (hidden.dtype, cell.dtype) == (dtype, dtype)
    found = torch.autograd.grad((hidden * cell).sum(), arguments)
    assert {gradient.dtype for gradient in found} == {F32}
