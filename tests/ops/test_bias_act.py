"""bias_act and its relatives: against the definition, for every activation, layout and type, and their refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops.bias_act import (
    FusedBiasLeakyReLU,
    bias_act,
    bias_activation,
    bias_activation_backward,
    fused_bias_leakyrelu,
)
from opsmith.ops.bias_act.activations import ACTIVATIONS

pytestmark = pytest.mark.compile

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
devices = pytest.mark.parametrize("device", DEVICES)
# What the result of one rounding may be off, relative to 1 + its size.
ROUNDING = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 1.5e-3, torch.bfloat16: 1.2e-2}
ROOT = math.sqrt(2)
# From PyTorch alone: the function, and the gain that StyleGAN2 gives it.
DEFINITIONS = {
    "linear": (lambda u: u, 1),
    "relu": (torch.relu, ROOT),
    "lrelu": (lambda u: functional.leaky_relu(u, 0.2), ROOT),
    "tanh": (torch.tanh, 1),
    "sigmoid": (torch.sigmoid, 1),
    "elu": (functional.elu, 1),
    "selu": (functional.selu, 1),
    "softplus": (lambda u: torch.logaddexp(u, torch.zeros_like(u)), 1),
    "swish": (functional.silu, ROOT),
}
activations = pytest.mark.parametrize("act", list(DEFINITIONS))
# Planes that are rows and those that are columns of a matrix, with and without whole vectors; few channels and many.
SHAPES = [
    ((3, 5, 7, 4), 1),
    ((2, 8, 32, 32), 1),
    ((2, 6, 30, 41), 1),
    ((700, 3), 1),
    ((5, 640), 1),
    ((9, 7), 0),
    ((4, 3, 5), -1),
    ((1, 2, 17000), 1),
    ((11,), 0),
    ((2, 3, 4, 5, 6), 2),
]


def expected_of(x: Tensor, b: Tensor, dim: int, act: str, clamp: float | None) -> Tensor:
    function, gain = DEFINITIONS[act]
    shape = [1] * x.ndim
    shape[dim] = -1
    y = function(x + b.reshape(shape)) * gain
    return y if clamp is None else y.clamp(-clamp, clamp)


def assert_near(found: Tensor, expected: Tensor, scale: float = 1) -> None:
    error = (found.double() - expected).abs()
    assert torch.all(error <= scale * ROUNDING[found.dtype] * (1 + expected.abs())), float(error.max())


def laid_out(x: Tensor, layout: str) -> Tensor:
    if layout == "channels_last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return x.to(memory_format=formats[x.ndim]) if x.ndim in formats else x
    if layout == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "offset by one":
        return torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape).copy_(x)
    return x


@devices
@activations
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "offset by one"])
def test_agrees_with_the_definition(act: str, layout: str, device: str) -> None:
    random = torch.Generator().manual_seed(0)
    types = list(ROUNDING)
    for number, (shape, dim) in enumerate(SHAPES):
        # Every shape meets every type among the activations, with a limit and without.
        turn = number + list(DEFINITIONS).index(act)
        dtype, clamp = types[turn % 4], 0.7 if turn % 3 else None
        x, b, grad = (torch.randn(size, generator=random).to(device, dtype) for size in (shape, (shape[dim],), shape))
        x = laid_out(x, layout)
        leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
        exact = x.double().requires_grad_(), b.double().requires_grad_()
        found, expected = bias_act(*leaves, dim, act, clamp=clamp), expected_of(*exact, dim, act, clamp)
        assert found.dtype == dtype
        if layout == "channels_last" and dim == 1:
            assert found.stride() == x.stride()
        assert_near(found.detach(), expected.detach())
        found_x, found_b = torch.autograd.grad(found, leaves, grad)
        expected_x, expected_b = torch.autograd.grad(expected, exact, grad.double())
        assert_near(found_x, expected_x)
        # Rounded once, and its terms as float32 numbers: what they add up to grows like the root of their number.
        assert_near(found_b, expected_b, 1 + math.sqrt(x.numel() / b.numel()) / 10)


@activations
def test_small_and_large_numbers_keep_their_digits(act: str) -> None:
    size = torch.cat([10.0 ** torch.arange(-37, 3, dtype=torch.float64), torch.tensor([0.0])])
    x = torch.cat([size, -size]).float()[None]
    leaf, ones = x.clone().requires_grad_(), torch.ones_like(x)
    found = bias_act(leaf, act=act)
    numbers = (None, act, ACTIVATIONS[act].alpha, ACTIVATIONS[act].gain, None)
    # What float32 holds with all its digits. Autograd's own gradients, of tanh and sigmoid, lose theirs.
    for actual, reference in (
        (found, bias_activation.reference(x.double(), *numbers)),
        (
            torch.autograd.grad(found.sum(), leaf)[0],
            bias_activation_backward.reference(ones.double(), x.double(), *numbers, False)[0],
        ),
    ):
        normal = (reference.abs() > 1e-37) | (reference == 0)
        torch.testing.assert_close(actual.double()[normal], reference[normal], rtol=2e-6, atol=0)


@activations
def test_first_and_second_gradients(act: str) -> None:
    random = torch.Generator().manual_seed(3)
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=random, requires_grad=True)
    b = torch.randn(3, dtype=torch.float64, generator=random, requires_grad=True)
    for clamp in (None, 0.9):
        for dim, bias in ((1, b), (-1, b[:1].expand(4).contiguous()), (1, None)):
            function = lambda x, bias: bias_act(x, bias, dim, act, 0.3, 1.5, clamp)  # noqa: B023, E731
            given = (x, bias.detach().requires_grad_() if bias is not None else None)
            assert torch.autograd.gradcheck(function, given)
            assert torch.autograd.gradgradcheck(function, given)


def test_a_limit_stops_gradients_by_the_value_before_rounding() -> None:
    # 2049 is no float16, and rounds to 2048; the limit lies between.
    x = torch.tensor([[2048.0]], dtype=torch.float16, requires_grad=True)
    b = torch.tensor([1.0], dtype=torch.float16)
    y = bias_act(x, b, clamp=2048.5)
    assert y.item() == 2048
    assert torch.autograd.grad(y, x)[0].item() == 0
    # At the limit itself too, by the definition as well, whatever torch.clamp does in this torch.
    x = torch.tensor([[1.0, -1.0, 1.5, 0.5]], requires_grad=True)
    for impl in ("cuda", "ref"):
        assert torch.autograd.grad(bias_act(x, clamp=1.0, impl=impl).sum(), x)[0].tolist() == [[0, 0, 0, 1]]


@devices
def test_nan_and_infinities(device: str) -> None:
    special = torch.tensor([[float("nan"), float("inf"), -float("inf")]], device=device)
    for act in DEFINITIONS:
        for clamp in (None, 1.0):
            x = special.clone().requires_grad_()
            found = bias_act(x, act=act, clamp=clamp)
            torch.testing.assert_close(found, bias_act(special, act=act, clamp=clamp, impl="ref"), equal_nan=True)
            assert found[0, 0].isnan()
            numbers = (None, act, ACTIVATIONS[act].alpha, ACTIVATIONS[act].gain, clamp, False)
            expected = bias_activation_backward.reference(torch.ones_like(special), special, *numbers)[0]
            torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], expected, equal_nan=True)
    assert bias_act(special, act="relu")[0, 2].item() == 0


def test_defaults_and_names_are_stylegans_and_mmcvs() -> None:
    x, b = torch.randn(2, 3, 4, 4), torch.randn(3)
    expected = functional.leaky_relu(x + b[:, None, None], 0.2) * ROOT
    torch.testing.assert_close(bias_act(x=x, b=b, dim=1, act="lrelu", alpha=None, gain=None, clamp=None), expected)
    torch.testing.assert_close(bias_act(x, b), x + b[:, None, None])
    torch.testing.assert_close(bias_act(x, act="lrelu", alpha=0.5, gain=2), functional.leaky_relu(x, 0.5) * 2)
    torch.testing.assert_close(fused_bias_leakyrelu(x, b), expected)
    torch.testing.assert_close(
        fused_bias_leakyrelu(x, b, negative_slope=0.1, scale=3), bias_act(x, b, 1, "lrelu", 0.1, 3)
    )
    module = FusedBiasLeakyReLU(3, negative_slope=0.1, scale=1.0)
    assert list(module.state_dict()) == ["bias"]
    assert repr(module) == "FusedBiasLeakyReLU(3, negative_slope=0.1, scale=1)"
    module.load_state_dict({"bias": b})
    torch.testing.assert_close(module(x), functional.leaky_relu(x + b[:, None, None], 0.1))


def test_arguments_that_mean_nothing_are_refused() -> None:
    x, b = torch.randn(2, 3, 4), torch.randn(3)
    for arguments, kind, words in (
        ({"act": "gelu"}, ArgumentValueError, "act is 'gelu', expected one of linear, relu, lrelu"),
        ({"impl": "cpu"}, ArgumentValueError, 'impl is \'cpu\', expected "cuda" or "ref"'),
        ({"clamp": -1.0}, ArgumentValueError, "clamp must not be below 0; it is -1"),
        ({"clamp": float("nan")}, ArgumentValueError, "clamp must not be below 0; it is nan"),
        ({"dim": 3}, ShapeError, "dim is 3, but x has 3 dimensions"),
        ({"dim": 1.0}, ArgumentTypeError, "dim is float 1.0, expected an int"),
        ({"dim": 2}, ShapeError, r"b has the shape \(3,\), expected \(4,\)"),
        ({"b": b[None]}, ShapeError, r"b has the shape \(1, 3\)"),
        ({"b": b.double()}, DtypeError, "b is float64"),
        ({"b": [1.0]}, ArgumentTypeError, r"b is list \[1.0\], expected a tensor"),
        ({"x": x.int(), "b": None}, DtypeError, "x is int32"),
        ({"x": 1.0}, ArgumentTypeError, "x is float 1.0, expected a tensor"),
    ):
        with pytest.raises(kind, match=words):
            bias_act(**{"x": x, "b": b, **arguments})
    for call in (bias_activation, bias_activation.reference):
        for wrong, words in (({"act": "\0"}, "act is"), ({"clamp": -0.5}, "clamp must not be below 0")):
            with pytest.raises(Exception, match=words):
                call(x, b, **wrong)


@devices
def test_tensors_without_elements_or_dimensions(device: str) -> None:
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 3)):
        x = torch.randn(shape, device=device, requires_grad=True)
        b = torch.randn(shape[1], device=device, requires_grad=True)
        y = bias_act(x, b, act="lrelu")
        assert y.shape == shape
        grads = torch.autograd.grad(y.sum(), (x, b))
        assert torch.equal(grads[0], torch.zeros_like(x)) and torch.equal(grads[1], torch.zeros_like(b))
    number = torch.tensor(-3.0, device=device)
    torch.testing.assert_close(bias_act(number, act="relu", clamp=1), torch.tensor(0.0, device=device))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    threads = torch.get_num_threads()
    for shape in ((3, 5, 200, 100), (5000, 17), (4, 700, 3, 3), (20000, 3)):
        x, b = torch.randn(shape), torch.randn(shape[1])
        found = []
        try:
            for count in (1, 2):
                torch.set_num_threads(count)
                leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
                y = bias_act(*leaves, act="swish", clamp=1.0)
                found.append((y, *torch.autograd.grad(y.pow(2).sum(), leaves)))
        finally:
            torch.set_num_threads(threads)
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_vmap_and_functional_gradients() -> None:
    x, b = torch.randn(4, 2, 3, 5, 6, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    call = lambda x, b: bias_act(x, b, act="lrelu")  # noqa: E731
    torch.testing.assert_close(
        torch.func.vmap(call)(x, b), torch.stack([call(*pair) for pair in zip(x, b, strict=True)])
    )
    loss = lambda x, b, how: bias_act(x, b, act="swish", impl=how).pow(3).sum()  # noqa: E731
    found, expected = (
        torch.func.vmap(torch.func.grad(lambda x, b: loss(x, b, how), (0, 1)))(x, b)  # noqa: B023
        for how in ("cuda", "ref")
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.slow("compiles with Inductor")
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_one_graph_serves_all_sizes(layout: str) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    traced = torch.compile(
        lambda x, b: bias_act(x, b, act="lrelu", clamp=1.0).sin(), fullgraph=True, dynamic=True, backend=counter
    )
    compiled = []
    for shape in ((2, 3, 6, 9), (4, 5, 13, 20), (3, 7, 17, 8)):
        x, b = laid_out(torch.randn(shape), layout), torch.randn(shape[1])
        pairs = [(x.clone().requires_grad_(), b.clone().requires_grad_()) for _ in range(2)]
        traced(*pairs[0]).sum().backward()
        bias_act(*pairs[1], act="lrelu", clamp=1.0).sin().sum().backward()
        for one, other in zip(*pairs, strict=True):
            torch.testing.assert_close(one.grad, other.grad)
        compiled.append(counter.frame_count)
    # Within the first call TorchDynamo may start again, to take the gain for a constant.
    assert compiled == compiled[:1] * 3


def test_autocast_takes_the_wider_type() -> None:
    x, b = torch.randn(2, 3, 4).bfloat16(), torch.randn(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found: Any = bias_act(x, b)
    torch.testing.assert_close(found, x.float() + b[:, None])


@devices
@pytest.mark.parametrize("shape", [(600, 64), (2, 64, 32, 32)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_bias_lies_anywhere(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x, room = torch.randn(shape, device=device).to(dtype), torch.randn(130, device=device).to(dtype)
    for b in (room[:64], room[1:65], room[2::2]):
        assert_near(bias_act(x, b, act="lrelu"), expected_of(x.double(), b.double(), 1, "lrelu", None))


@pytest.mark.gpu
def test_runs_on_a_gpu_are_equal_bit_for_bit() -> None:
    for shape in ((16, 24, 64, 64), (40000, 96), (64, 512, 4, 4), (3, 3, 1001)):
        x, b = torch.randn(shape, device="cuda"), torch.randn(shape[1], device="cuda")
        runs = []
        for _ in range(3):
            leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
            runs.append(torch.autograd.grad(bias_act(*leaves, act="swish").sum(), leaves))
        assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize(
    "shape",
    [
        (4, 7, 601, 1000),  # rows in pieces, of which the last is shorter
        (3000, 3, 1048),  # a row of a little more than a block has threads
        (5000, 16, 520),  # several whole rows for a block
        (70000, 2, 1024),  # more samples than a grid has blocks along one of its sides
        (60001, 1000),  # a matrix with a remainder of both
        (5, 100_003, 8, 8),  # small planes: channels that a vector does not cross
    ],
)
def test_on_a_gpu_blocks_share_out_what_is_large(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    # A thread takes one vector until a GPU has its blocks; from a million vectors on it takes several.
    random = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(shape, device="cuda", dtype=dtype, generator=random)
    b = torch.randn(shape[1], device="cuda", dtype=dtype, generator=random)
    grad = torch.randn(shape, device="cuda", dtype=dtype, generator=random)
    found, expected = [
        (y.detach(), *torch.autograd.grad(y, leaves, grad.to(y.dtype)))
        for leaves in ([t.clone().requires_grad_() for t in (x, b)], [t.double().requires_grad_() for t in (x, b)])
        for y in [
            expected_of(*leaves, 1, "lrelu", None)
            if leaves[0].dtype == torch.float64
            else bias_act(*leaves, act="lrelu")
        ]
    ]
    terms = x.numel() / b.numel()
    for actual, reference, scale in zip(found, expected, (1, 1, 1 + math.sqrt(terms) / 10), strict=True):
        assert_near(actual, reference, scale)
