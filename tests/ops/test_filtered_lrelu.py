"""filtered_lrelu: against the definition and by hand, for every way to call it, and its refusals."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, GradientError, ShapeError
from opsmith.ops.filtered_lrelu import FilteredLReLU, filtered_lrelu, filtered_lrelu_backward, filtered_lrelu_sized
from opsmith.ops.upfirdn2d import setup_filter

pytestmark = pytest.mark.compile

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def by_matrices(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor,
    up: int,
    down: int,
    padding: tuple[int, ...],
    gain: float,
    clamp: float,
) -> Tensor:
    """The definition in float64 with a matrix for each filter and axis: an oracle that shares nothing with the body."""
    left, right, top, bottom = padding
    x = x.double() + b.double()[:, None, None]
    for dim, (before, after) in ((2, (top, bottom)), (3, (left, right))):
        size = x.shape[dim] * up + before + after
        stuffed = torch.zeros(size, x.shape[dim], dtype=torch.float64)
        for i in range(x.shape[dim]):
            if 0 <= before + i * up < size:
                stuffed[before + i * up, i] = up
        x = along(x, convolution(fu, size) @ stuffed, dim)
    x = (functional.leaky_relu(x, 0.25) * gain).clamp(-clamp, clamp)
    for dim in (2, 3):
        x = along(x, convolution(fd, x.shape[dim])[::down], dim)
    return x


def convolution(f: Tensor, size: int) -> Tensor:
    """The matrix of a filter without padding."""
    rows = size - len(f) + 1
    matrix = torch.zeros(rows, size, dtype=torch.float64)
    for i in range(rows):
        matrix[i, i : i + len(f)] = f.double().flip(0)
    return matrix


def along(x: Tensor, matrix: Tensor, dim: int) -> Tensor:
    return torch.tensordot(x, matrix, dims=([dim], [1])).movedim(-1, dim)


@pytest.mark.parametrize(
    ("up", "down", "taps", "padding"),
    [
        (1, 1, (1, 1), (0, 0, 0, 0)),
        (2, 2, (12, 12), (11, 10, 9, 12)),
        (4, 2, (24, 12), (17, 20, 18, 19)),
        (2, 4, (8, 24), (15, 16, 20, -1)),
        (3, 2, (5, 4), (-2, 9, 6, 4)),
    ],
)
def test_agrees_with_matrices(up: int, down: int, taps: tuple[int, int], padding: tuple[int, ...]) -> None:
    torch.manual_seed(up)
    x, b = torch.randn(2, 3, 13, 16), torch.randn(3)
    fu, fd = (torch.randn(size) / size for size in taps)
    expected = by_matrices(x, fu, fd, b, up, down, padding, 1.5, 0.5)
    for impl in ("cuda", "ref"):
        found = filtered_lrelu(x, fu, fd, b, up, down, list(padding), 1.5, 0.25, 0.5, impl=impl)
        near(found, expected)


def coarse(shape: tuple[int, ...], draw: torch.Generator, step: float = 0.125) -> Tensor:
    """Numbers of few digits: their sums of products are exact in float32, so no rounding decides which side of a kink."""
    return torch.randint(-8, 9, shape, generator=draw) * step


def cases(count: int) -> list[Any]:
    """Calls at random, as (layout, element type, shape, whether there is a bias, the filters' shapes, arguments)."""
    draw = random.Random(0)
    found = []
    for number in range(count):
        shape = (draw.choice([1, 2]), draw.choice([1, 3, 40]), draw.randint(1, 20), draw.randint(1, 40))
        taps = [
            (draw.randint(1, 13),) if draw.random() < 0.5 else (draw.randint(1, 5), draw.randint(1, 5)) for _ in "ud"
        ]
        arguments = {
            "up": draw.randint(1, 5),
            "down": draw.randint(1, 5),
            "padding": [draw.randint(-3, 19) for _ in range(4)],
            "gain": draw.choice([1.0, 1.5, -0.5]),
            "slope": draw.choice([0.25, 0.0, 1.0]),
            "clamp": draw.choice([None, 0.5, 3.0]),
            "flip_filter": draw.random() < 0.5,
        }
        layout = draw.choice(["contiguous", "channels_last", "transposed", "inner"])
        found.append(
            pytest.param(layout, TYPES[number % 4], shape, draw.random() < 0.7, taps, arguments, id=str(number))
        )
    return found


def laid_out(x: Tensor, layout: str) -> Tensor:
    if layout == "channels_last":
        return x.to(memory_format=torch.channels_last)
    if layout == "transposed":
        return x.transpose(2, 3).contiguous().transpose(2, 3)
    if layout == "inner":
        return functional.pad(x, (1, 2, 1, 0))[..., 1:, 1:-2]
    return x


@pytest.mark.parametrize(("layout", "dtype", "shape", "has_bias", "taps", "arguments"), cases(48))
def test_agrees_with_the_definition(
    layout: str,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    has_bias: bool,
    taps: list[tuple[int, ...]],
    arguments: dict[str, Any],
) -> None:
    draw = torch.Generator().manual_seed(sum(shape))
    x = laid_out(coarse(shape, draw).to(dtype), layout)
    b = coarse(shape[1:2], draw).to(dtype) if has_bias else None
    fu, fd = (coarse(size, draw) for size in taps)
    leaves = [one.clone().requires_grad_() for one in (x, b) if one is not None]
    exact = [one.double().requires_grad_() for one in (x, b) if one is not None]
    of = lambda x, b=None, **more: filtered_lrelu(x, fu, fd, b, **arguments, **more)  # noqa: E731
    try:
        expected = of(*exact, impl="ref")
    except ShapeError as refused:
        with pytest.raises(ShapeError, match="the filters take") as error:
            of(*leaves)
        assert str(error.value) == str(refused)
        return
    found = of(*leaves)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last) or layout != "channels_last"
    near(found.detach(), expected.detach())
    outer = coarse(tuple(expected.shape), draw)
    gradients = torch.autograd.grad(found, leaves, outer.to(dtype))
    assert gradients[0].is_contiguous(memory_format=torch.channels_last) or layout != "channels_last"
    for actual, wanted in zip(gradients, torch.autograd.grad(expected, exact, outer.double()), strict=True):
        # A bias' gradient is a sum in which more cancels than in the others.
        near(actual, wanted, floor=1e-3 * math.sqrt(x.numel()) if actual.ndim == 1 else 0)


def near(found: Tensor, expected: Tensor, floor: float = 0) -> None:
    assert found.shape == expected.shape
    # Against the largest, because terms cancel; everything in between is float32.
    allowed = 4 * torch.finfo(found.dtype).eps * (float(expected.abs().max()) + floor) if expected.numel() else 0
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("clamp", [None, 0.7])
@pytest.mark.parametrize("taps", [(4, 4), ((3, 2), (2, 3))], ids=["separable", "full"])
def test_first_and_second_gradients(taps: Any, clamp: float | None) -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(2, dtype=torch.float64, requires_grad=True)
    fu, fd = (torch.randn(size) for size in taps)
    function = lambda x, b: filtered_lrelu(x, fu, fd, b, 2, 2, [3, 2, 4, 3], slope=0.3, clamp=clamp)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, b), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, b), fast_mode=True)


def test_gradients_of_third_order() -> None:
    f = setup_filter([1, 3, 3, 1])
    gradients = []
    for impl in ("cuda", "ref"):
        torch.manual_seed(0)
        x = torch.randn(1, 2, 5, 6, dtype=torch.float64, requires_grad=True)
        total = filtered_lrelu(x, f, f, None, 2, 2, 5, impl=impl).pow(4).sum()
        for _ in range(3):
            (total,) = torch.autograd.grad(total.sum(), x, create_graph=True)
        gradients.append(total)
    torch.testing.assert_close(*gradients)


def test_the_gradient_keeps_x_and_nothing_of_the_upsampled_size() -> None:
    kept: list[Tensor] = []
    f = setup_filter(range(1, 13))
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        filtered_lrelu(x, f, f, torch.zeros(3), 2, 2, 11, clamp=1)
    assert sum(tensor.numel() for tensor in kept) <= x.numel() + 3 + 2 * 24


def test_a_limit_and_a_slope_meet_gradients() -> None:
    x = torch.tensor([-4.0, -1.0, 0.0, 1.0, 2.0, 3.0]).view(1, 1, 1, 6).requires_grad_()
    y = filtered_lrelu(x, gain=1, slope=0.5, clamp=2)
    assert y.flatten().tolist() == [-2, -0.5, 0, 1, 2, 2]
    # At a limit the gradient is 0, and the slope at 0 is the one from the left, as in PyTorch.
    assert torch.autograd.grad(y.sum(), x)[0].flatten().tolist() == [0, 0.5, 0.5, 1, 0, 0]
    # What has no gradient has none, be the other one what it may.
    big = torch.tensor([3.0]).view(1, 1, 1, 1).requires_grad_()
    y = filtered_lrelu(big, gain=1, clamp=2)
    assert torch.autograd.grad(y, big, torch.full_like(y, math.inf))[0].item() == 0


def test_the_bias_is_not_added_to_the_padding() -> None:
    y = filtered_lrelu(torch.zeros(1, 1, 1, 1), b=torch.ones(1), padding=1, gain=1)
    assert y.tolist() == [[[[0, 0, 0], [0, 1, 0], [0, 0, 0]]]]


def test_arguments_that_mean_nothing_are_refused() -> None:
    x, f, b = torch.randn(1, 2, 4, 4), torch.ones(3, 3), torch.zeros(2)
    for arguments, kind, words in (
        ({"up": 0}, ArgumentValueError, r"filtered_lrelu\(\): up is 0, expected 1 to 256"),
        ({"down": 257}, ArgumentValueError, "down is 257"),
        ({"up": [1, 2]}, ArgumentValueError, r"up is \[1, 2\], expected one factor for both axes"),
        ({"up": 1.5}, ArgumentTypeError, "up is float 1.5, expected an int"),
        ({"padding": [1, 2, 3]}, ArgumentTypeError, "expected an int or 2 or 4 of them"),
        (
            {"padding": -1},
            ShapeError,
            "along y the filters take 3 samples, but after upsampling and padding there are 2",
        ),
        ({"padding": [0, -2, 0, 0]}, ShapeError, "along x"),
        ({"clamp": -1}, ArgumentValueError, r"filtered_lrelu\(\): clamp must not be below 0; it is -1"),
        ({"clamp": math.nan}, ArgumentValueError, "clamp must not be below 0"),
        ({"impl": "cpu"}, ArgumentValueError, 'impl is \'cpu\', expected "cuda" or "ref"'),
        ({"padding": 2, "fd": f.double()}, DtypeError, "fd is float64, expected float32"),
        ({"padding": 2, "fd": f[None]}, ArgumentValueError, r"fd has the shape \(1, 3, 3\)"),
        ({"padding": 2, "fd": f[:0]}, ArgumentValueError, r"fd has the shape \(0, 3\)"),
        ({"padding": 2, "fd": [1.0]}, ArgumentValueError, "fd has the type list"),
        (
            {"padding": 2, "fd": f.clone().requires_grad_()},
            GradientError,
            r"no gradient of the filter fd: give it fd\.detach\(\)",
        ),
        ({"b": b[:1]}, ShapeError, r"b has the shape \(1,\), expected \(2,\)"),
        ({"b": b.double()}, DtypeError, "b is float64"),
        ({"b": 1.0}, ArgumentTypeError, "b is float 1.0, expected a tensor"),
    ):
        with pytest.raises(kind, match=words):
            filtered_lrelu(x, f, **arguments)
    for image, kind, words in (
        (x[0], ShapeError, r"x has 3 dimensions, expected a tensor \[N, C, H, W\]"),
        (x.int(), DtypeError, "x is int32"),
    ):
        with pytest.raises(kind, match=words):
            filtered_lrelu(image, f)


def test_the_operators_refuse_by_themselves() -> None:
    x, f = torch.randn(1, 1, 4, 4), torch.ones(3, 3)
    grad = torch.ones(1, 1, 2, 2)
    numbers = {"pad_y": 0, "pad_x": 0, "separable_up": False, "separable_down": False, "flip": False, "gain": 1.0}
    numbers |= {"up": 1, "down": 1, "slope": 0.2, "clamp": None}
    for operator, head, tail in (
        (filtered_lrelu_sized, (), {}),
        (filtered_lrelu_backward, (grad,), {"needs_grad_b": False}),
    ):
        for call in (operator, operator.reference):
            for arguments, words in (
                ({"up": 0}, "up and down can be 1 to 256"),
                ({"down": 1 << 40}, "up and down can be 1 to 256"),
                ({"pad_x": -(1 << 62)}, "a padding has at most 31 bits"),
                ({"separable_up": True}, "a separable filter has two rows, its taps along y and along x; found 3"),
                ({"separable_down": True}, "a separable filter has two rows, its taps along y and along x; found 3"),
                ({"clamp": -1.0}, "clamp must not be below 0"),
            ):
                with pytest.raises(Exception, match=words):
                    call(*head, x, f, f, None, 2, 2, **{**numbers, **arguments}, **tail)
            for filters in ((f[:0], f), (f, f[:0])):
                with pytest.raises(Exception, match="the filter has no taps"):
                    call(*head, x, *filters, None, 2, 2, **numbers, **tail)


def test_images_without_elements_and_far_paddings() -> None:
    f = setup_filter([1, 3, 3, 1])
    for shape in ((0, 3, 4, 4), (2, 0, 4, 4)):
        x, b = torch.randn(shape, requires_grad=True), torch.randn(shape[1], requires_grad=True)
        y = filtered_lrelu(x, f, f, b, 2, 2, 5)
        assert y.shape == (*shape[:2], 6, 6)
        gradients = torch.autograd.grad(y.sum(), (x, b))
        assert gradients[0].shape == shape
        assert torch.equal(gradients[1], torch.zeros(shape[1]))
    assert torch.equal(filtered_lrelu(torch.randn(1, 2, 0, 3), f, f, None, 1, 2, 4), torch.zeros(1, 2, 1, 3))
    for pad in ([30, 1, -2, 19], [-1, 40, 60, 0], [-3, 15, -5, 90]):
        x = torch.randn(1, 1, 6, 5, requires_grad=True)
        found, expected = (filtered_lrelu(x, f, f, None, 2, 3, pad, impl=impl) for impl in ("cuda", "ref"))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x))


def test_nan_and_infinities() -> None:
    f = setup_filter([1, 3, 3, 1])
    x = torch.zeros(1, 1, 8, 8)
    x[..., 4, 4] = math.nan
    found, expected = (filtered_lrelu(x, f, f, None, 2, 2, 5, clamp=1, impl=impl) for impl in ("cuda", "ref"))
    assert torch.equal(found.isnan(), expected.isnan())
    wrong = f.clone()
    wrong[1, 2] = math.nan
    for filters in ((wrong, f), (f, wrong)):
        leaf = torch.ones(1, 1, 4, 4, requires_grad=True)
        y = filtered_lrelu(leaf, *filters, None, 2, 2, 5)
        assert y.isnan().all()
        assert torch.autograd.grad(y.sum(), leaf)[0].isnan().all()
    assert (filtered_lrelu(torch.full((1, 1, 2, 2), math.inf), gain=1, clamp=3) == 3).all()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, b, f = torch.randn(3, 5, 200, 100), torch.randn(5), setup_filter(torch.rand(12))
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
            y = filtered_lrelu(leaves[0], f, f, leaves[1], 2, 2, 11)
            found.append((y, *torch.autograd.grad(y.pow(2).sum(), leaves)))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, *found))


def test_vmap_and_functional_gradients() -> None:
    f = setup_filter([1, 3, 3, 1])
    x = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    one = lambda image, impl="cuda": filtered_lrelu(image, f, f, None, 2, 2, 5, clamp=1, impl=impl)  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(one)(x), torch.stack([one(image, "ref") for image in x]))
    found, expected = (
        torch.func.vmap(torch.func.grad(lambda image: one(image, impl).pow(3).sum()))(x)  # noqa: B023
        for impl in ("cuda", "ref")
    )
    torch.testing.assert_close(found, expected)


def test_autocast_computes_in_the_type_of_x() -> None:
    f = setup_filter([1, 3, 3, 1])
    x, b = torch.randn(1, 2, 8, 8, dtype=torch.bfloat16), torch.randn(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert filtered_lrelu(x, f, f, None, 2, 2, 5).dtype == torch.bfloat16
        # As of PyTorch's own operators: of two types the wider.
        assert filtered_lrelu(x, f, f, b, 2, 2, 5).dtype == torch.float32


@pytest.mark.slow("compiles with Inductor")
def test_one_graph_serves_all_sizes() -> None:
    f = setup_filter([1, 3, 3, 1])
    counter = CompileCounterWithBackend("aot_eager")
    function = lambda x, b: filtered_lrelu(x, f, f, b, 2, 2, [5, 4, 3, 6], clamp=1)  # noqa: E731
    traced = torch.compile(lambda x, b: function(x, b).sin(), fullgraph=True, dynamic=True, backend=counter)
    b = torch.randn(3, requires_grad=True)
    graphs = []
    for height, width in ((6, 9), (13, 20), (17, 8)):
        x = torch.randn(2, 3, height, width, requires_grad=True)
        found = torch.autograd.grad(traced(x, b).sum(), (x, b))
        torch.testing.assert_close(found, torch.autograd.grad(function(x, b).sin().sum(), (x, b)))
        graphs.append(counter.frame_count)
    # The first size may take two: PyTorch begins again where it took a default that is a float for a variable.
    assert graphs[0] == graphs[-1]


def test_a_module_owns_filters_and_bias() -> None:
    f = setup_filter(range(1, 13))
    module = FilteredLReLU(3, range(1, 13), range(1, 13), 2, 2, 11, clamp=256).half()
    assert module.fu.dtype == module.fd.dtype == torch.float32
    assert list(module.state_dict()) == ["bias", "fu", "fd"]
    module.bias.data += torch.tensor([1, -1, 0.5])
    x = torch.randn(2, 3, 8, 8, dtype=torch.float16)
    assert torch.equal(module(x), filtered_lrelu(x, f, f, module.bias, 2, 2, 11, clamp=256))
    assert repr(module) == "FilteredLReLU(3, up=2, down=2, 12 and 12 taps)"


def test_operations_are_those_of_its_filterings():
    """Without what inserted zeros would take; of u there is what the result needs, 42 x 50."""
    x, taps, images = torch.randn(2, 3, 16, 20, requires_grad=True), setup_filter([1.0] * 12), 2 * 3
    with FlopCounterMode(display=False) as forward:
        y = filtered_lrelu(x, taps, taps, torch.zeros(3, requires_grad=True), up=2, down=2, padding=[11, 10, 11, 10])
    assert y.shape[2:] == (16, 20)
    # Six taps meet samples in front of the nonlinearity, along x first, and twelve behind it, along y first.
    up, down = 2 * images * (16 * 50 * 6 + 42 * 50 * 6), 2 * images * (16 * 50 * 12 + 16 * 20 * 12)
    assert forward.get_total_flops() == up + down
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    assert backward.get_total_flops() == 2 * up + down
