"""Holds mlp to its reference: values, gradients, layouts, for products of its own and for PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from layouts import laid_out
from torch import Tensor

from opsmith.ops.mlp import MLP, mlp, mlp_backward

pytestmark = pytest.mark.compile

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
# Batch, features, hidden units and outputs: the sizes of the benchmarks, multiples of no vector and no tile, more rows
# than a block or a group has, and one that goes through PyTorch's products on a GPU (and in bfloat16 on the CPU).
SIZES = [(1, 1, 1, 1), (16, 32, 128, 1), (1024, 5, 15, 1), (33, 17, 65, 10), (7, 300, 3, 2), (129, 3, 70, 300)]
LARGE = (300, 260, 600, 130)
EMPTY = [(0, 3, 4, 5), (3, 0, 4, 5), (3, 4, 0, 5), (3, 4, 5, 0)]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
ARGUMENTS = ("input", "weight1", "bias1", "weight2", "bias2")

devices = pytest.mark.parametrize("device", DEVICES)
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
Function = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def keep_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def make(size: tuple[int, int, int, int], device: str = "cpu", dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Arguments whose hidden units and outputs are of order 1."""
    batch, features, units, outputs = size
    generator = torch.Generator().manual_seed(sum(size))
    shapes = [(batch, features), (units, features), (units,), (outputs, units), (outputs,)]
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    tensors[1] /= max(features, 1) ** 0.5
    tensors[3] /= max(units, 1) ** 0.5
    return [tensor.to(device, dtype) for tensor in tensors]


def gradients(function: Function, arguments: list[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    return torch.autograd.grad(function(*leaves), leaves, outer)


def exact_with_the_same_mask(arguments: list[Tensor]) -> tuple[Function, list[Tensor]]:
    """The body in float64, with the ReLU open where the kernel had it open.

    A hidden unit within a rounding of 0 may be on either side of it, which changes the gradient by as much as a unit
    gives: that is the ReLU's own, and no error of the kernel.
    """
    with torch.no_grad():
        is_open = mlp.torch_op(*arguments)[1] > 0

    def exact(input: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:  # noqa: A002
        return torch.where(is_open, input @ weight1.t() + bias1, 0) @ weight2.t() + bias2

    return exact, [argument.double() for argument in arguments]


def assert_close(found: Tensor, wanted: Tensor, dtype: torch.dtype, terms: int = 1) -> None:
    """Compare with a tolerance of the largest element, or of what a sum of so many terms of order 1 comes to.

    A sum's rounding goes with its terms, and a single sum may cancel to much less than they are.
    """
    assert found.dtype == dtype
    assert found.shape == wanted.shape
    largest = float(wanted.detach().abs().max()) if wanted.numel() else 0.0
    scale = max(1.0, terms**0.5, largest)
    torch.testing.assert_close(found.double() / scale, wanted / scale, rtol=0, atol=TOLERANCE[dtype])


def check_against_reference(arguments: list[Tensor]) -> None:
    dtype, rows, outputs = arguments[0].dtype, arguments[0].shape[0], arguments[4].shape[0]
    assert_close(mlp(*arguments), mlp.reference(*(argument.double() for argument in arguments))[0], dtype)
    torch.manual_seed(0)
    outer = torch.randn(rows, outputs, dtype=dtype, device=arguments[0].device)
    exact, wide = exact_with_the_same_mask(arguments)
    for found, wanted in zip(gradients(mlp, arguments, outer), gradients(exact, wide, outer.double()), strict=True):
        assert_close(found, wanted, dtype, terms=rows)


@devices
@dtypes
@pytest.mark.parametrize("size", [*SIZES, LARGE], ids=str)
def test_agrees_with_the_reference(size: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> None:
    check_against_reference(make(size, device, dtype))


@devices
@pytest.mark.parametrize("size", EMPTY, ids=str)
def test_sizes_of_none(size: tuple[int, int, int, int], device: str) -> None:
    check_against_reference(make(size, device, torch.float32))


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(17, 12, 20, 6), LARGE], ids=str)
@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "offset"])
def test_takes_any_strides(layout: str, size: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> None:
    check_against_reference([laid_out(argument, layout) for argument in make(size, device, dtype)])


@devices
@pytest.mark.parametrize("size", [(3, 2, 4, 2), (9, 5, 6, 3)], ids=str)
def test_gradients_of_first_and_second_order(size: tuple[int, int, int, int], device: str) -> None:
    arguments = [argument.requires_grad_() for argument in make(size, device)]
    assert torch.autograd.gradcheck(mlp, arguments)
    assert torch.autograd.gradgradcheck(mlp, arguments)


@devices
@pytest.mark.parametrize("size", [(5, 3, 4, 2), LARGE], ids=str)
def test_the_mask_is_in_the_gradient(size: tuple[int, int, int, int], device: str) -> None:
    """A unit that is shut passes nothing, as the published gradient had it; at exactly 0 the slope is 0, as in PyTorch."""
    batch, _, units, outputs = size
    arguments = make(size, device, torch.float32)
    arguments[1].zero_()
    arguments[2].copy_(torch.tensor([-1.0, 0.0]).repeat(units)[:units])
    grads = gradients(mlp, arguments, torch.ones(batch, outputs, device=device))
    assert not any(grad.any() for grad in grads[:4])
    torch.testing.assert_close(grads[4], torch.full_like(grads[4], batch))


@devices
@pytest.mark.parametrize("size", [(4, 3, 5, 2), LARGE], ids=str)
def test_nan_goes_through(size: tuple[int, int, int, int], device: str) -> None:
    arguments = make(size, device, torch.float32)
    arguments[0][1, 0] = float("nan")
    output = mlp(*arguments)
    assert output[1].isnan().all()
    assert not output[0].isnan().any()
    outer = torch.ones_like(output)
    for found, wanted in zip(
        gradients(mlp, arguments, outer), gradients(lambda *a: mlp.reference(*a)[0], arguments, outer), strict=True
    ):
        assert torch.equal(found.isnan(), wanted.isnan())


@devices
@pytest.mark.parametrize("size", [(16, 3, 5, 2), LARGE], ids=str)
@pytest.mark.parametrize("place", range(5), ids=ARGUMENTS)
def test_gives_the_gradient_of_one_argument(place: int, size: tuple[int, int, int, int], device: str) -> None:
    arguments = make(size, device)
    outer = torch.randn(size[0], size[3], dtype=torch.float64, device=device)
    wanted = gradients(mlp, arguments, outer)[place]
    leaf = arguments[place].requires_grad_()
    (found,) = torch.autograd.grad(mlp(*arguments), [leaf], outer)
    assert torch.equal(found, wanted)


@devices
@dtypes
@pytest.mark.parametrize("size", [(70, 30, 200, 12), LARGE], ids=str)
def test_runs_are_equal_bit_for_bit(size: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> None:
    """Also with another number of threads, where the products are the kernel's own.

    On processors with AMX, PyTorch's in bfloat16 have other bits with three threads than with two.
    """
    arguments = make(size, device, dtype)
    outer = torch.ones(size[0], size[3], dtype=dtype, device=device)
    is_pytorch_s = device == "cpu" and dtype == torch.bfloat16 and size == LARGE
    runs = []
    for threads in (3, 3, 3) if is_pytorch_s else (1, 2, 3):
        torch.set_num_threads(threads)
        output, hidden = mlp.torch_op(*arguments)
        runs.append((output, hidden, *mlp_backward(outer, *arguments, hidden)))
    for run in runs[1:]:
        assert all(torch.equal(found, first) for found, first in zip(run, runs[0], strict=True))


@devices
def test_module_agrees_with_its_layers(device: str) -> None:
    module = MLP(6, 9, 4, device=device)
    layers = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4)).to(device)
    for theirs, ours in zip(layers.parameters(), module.parameters(), strict=True):
        assert theirs.shape == ours.shape
        theirs.data.copy_(ours.data)
    for shape in [(6,), (3, 6), (2, 3, 6), (2, 0, 6)]:
        x = torch.randn(shape, device=device)
        torch.testing.assert_close(module(x), layers(x))


def test_module_draws_its_parameters_as_linear_layers_do() -> None:
    torch.manual_seed(0)
    module = MLP(100, 400, 50)
    for weight, bias in ((module.weight1, module.bias1), (module.weight2, module.bias2)):
        bound = weight.shape[1] ** -0.5
        for parameter in (weight, bias):
            assert 0.9 * bound < float(parameter.detach().abs().max()) <= bound


def test_module_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"must be positive, found \(3, 0, 1\)"):
        MLP(3, 0, 1)
    with pytest.raises(ValueError, match="at least 1 dimension"):
        MLP(3, 4, 1)(torch.tensor(1.0))
