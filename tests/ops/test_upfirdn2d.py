"""upfirdn2d and its relatives: against the definition and by hand, for every way to call them, and their refusals."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from layouts import laid_out
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.flop_counter import FlopCounterMode

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DeviceError, DtypeError, GradientError, ShapeError
from opsmith.ops.upfirdn2d import (
    Downsample2d,
    Filter2d,
    Upsample2d,
    downsample2d,
    filter2d,
    setup_filter,
    upfirdn2d,
    upfirdn2d_sized,
    upsample2d,
)

pytestmark = pytest.mark.compile

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def by_hand(x: Tensor, f: Tensor, up: int, down: int, pad: tuple[int, int], flip: bool, gain: float) -> Tensor:
    """One axis of one image from the definition, a product at a time: an oracle that shares nothing with the body."""
    taps = f.double() if flip else f.double().flip(0)
    stuffed = torch.zeros(len(x) * up, dtype=torch.float64)
    stuffed[::up] = x.double()
    before, after = pad
    found = []
    for start in range(-before, len(stuffed) + after - len(taps) + 1, down):
        inside = [(k, start + k) for k in range(len(taps)) if 0 <= start + k < len(stuffed)]
        found.append(gain * sum((float(taps[k] * stuffed[i]) for k, i in inside), 0.0))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("up", "down", "taps", "pad"),
    [
        (1, 1, 1, (0, 0)),
        (2, 1, 4, (2, 1)),
        (1, 2, 4, (1, 1)),
        (3, 2, 5, (-2, 6)),
        (2, 3, 12, (9, -1)),
        (5, 1, 2, (0, 0)),
    ],
)
def test_an_axis_by_hand(axis: str, flip: bool, up: int, down: int, taps: int, pad: tuple[int, int]) -> None:
    torch.manual_seed(taps)
    row, f = torch.randn(23), torch.randn(taps)
    expected = by_hand(row, f, up, down, pad, flip, 0.75)
    if axis == "x":
        shape, kernel, where = (1, 1, 1, -1), f[None], {"up": [up, 1], "down": [down, 1], "padding": [*pad, 0, 0]}
    else:
        shape, kernel, where = (1, 1, -1, 1), f[:, None], {"up": [1, up], "down": [1, down], "padding": [0, 0, *pad]}
    for impl in ("cuda", "ref"):
        found = upfirdn2d(row.view(shape), kernel, flip_filter=flip, gain=0.75, impl=impl, **where)
        torch.testing.assert_close(found.flatten().double(), expected, rtol=1e-5, atol=1e-5)


def cases(count: int) -> list[Any]:
    """Calls at random, as (layout, element type, shape, filter's shape, arguments)."""
    draw = random.Random(0)
    found = []
    for number in range(count):
        shape = (draw.choice([1, 2]), draw.choice([1, 3, 40]), draw.randint(1, 20), draw.randint(1, 70))
        separable = draw.random() < 0.5
        taps = (draw.randint(1, 13),) if separable else (draw.randint(1, 6), draw.randint(1, 6))
        pairs = [[draw.randint(1, 5), draw.randint(1, 5)] for _ in "ud"]
        arguments = {
            "up": pairs[0],
            "down": pairs[1],
            "padding": [draw.randint(-4, 9) for _ in range(4)],
            "flip_filter": draw.random() < 0.5,
            "gain": draw.uniform(-2, 2),
        }
        layout = draw.choice(["contiguous", "channels_last", "transposed", "inner"])
        found.append(pytest.param(layout, TYPES[number % 4], shape, taps, arguments, id=str(number)))
    return found


@pytest.mark.parametrize(("layout", "dtype", "shape", "taps", "arguments"), cases(80))
def test_agrees_with_the_definition(
    layout: str, dtype: torch.dtype, shape: tuple[int, ...], taps: tuple[int, ...], arguments: dict[str, Any]
) -> None:
    torch.manual_seed(sum(shape))
    x, f = laid_out(torch.randn(shape).to(dtype), layout), torch.randn(taps)
    exact = x.double().requires_grad_()
    try:
        expected = upfirdn2d(exact, f, impl="ref", **arguments)
    except ShapeError as refused:
        with pytest.raises(ShapeError, match="taps") as error:
            upfirdn2d(x, f, **arguments)
        assert str(error.value) == str(refused)
        return
    leaf = x.clone().requires_grad_()
    found = upfirdn2d(leaf, f, **arguments)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last) or layout != "channels_last"
    near(found.detach(), expected.detach())
    outer = torch.randn_like(expected)
    outer = outer.to(dtype).double()
    near(torch.autograd.grad(found, leaf, outer.to(dtype))[0], torch.autograd.grad(expected, exact, outer)[0])


def near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    # Against the largest, because terms cancel; sums are made in float32, so nothing grows with their length.
    allowed = 4 * torch.finfo(found.dtype).eps * float(expected.abs().max()) if expected.numel() else 0
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize(
    "f",
    [
        setup_filter([1, 3, 3, 1]),
        pytest.param(setup_filter(range(1, 9)), marks=pytest.mark.slow("finite differences")),
    ],
    ids=["full", "separable"],
)
def test_gradients_of_any_order_are_upfirdn2d_again(f: Tensor) -> None:
    x = torch.randn(1, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    function = lambda x: upfirdn2d(x, f, up=[2, 1], down=[1, 3], padding=[3, -1, 4, 5], gain=1.5)  # noqa: E731
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)
    gradient = function(x).pow(5).sum()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(gradient.sum(), x, create_graph=True)
    exact = upfirdn2d(x, f, up=[2, 1], down=[1, 3], padding=[3, -1, 4, 5], gain=1.5, impl="ref").pow(5).sum()
    for _ in range(3):
        (exact,) = torch.autograd.grad(exact.sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, exact)


def test_a_gradient_keeps_no_image() -> None:
    kept: list[Tensor] = []
    f = setup_filter([1, 3, 3, 1])
    x = torch.randn(1, 1, 8, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        upsample2d(x, f)
    assert all(tensor.numel() <= f.numel() for tensor in kept)


def test_the_relatives_keep_and_scale_sizes_and_brightness() -> None:
    x = torch.ones(1, 1, 12, 16)
    for f in (setup_filter([1, 3, 3, 1]), setup_filter([1] * 9), setup_filter([[1, 2, 1]]), None):
        for function, sizes in (
            (lambda f: filter2d(x, f), (12, 16)),
            (lambda f: upsample2d(x, f), (24, 32)),
            (lambda f: upsample2d(x, f, up=[3, 2]), (24, 48)),
            (lambda f: downsample2d(x, f), (6, 8)),
            (lambda f: downsample2d(x, f, down=[4, 3]), (4, 4)),
            (lambda f: filter2d(x, f, padding=[1, 2]), (16, 18)),
            (lambda f: filter2d(x, f, padding=-1), (10, 14)),
        ):
            assert function(f).shape[2:] == sizes
    y = upsample2d(x, setup_filter([1, 3, 3, 1]))
    torch.testing.assert_close(y[..., 4:-4, 4:-4], torch.ones(1, 1, 16, 24))
    assert downsample2d(x, setup_filter([1, 3, 3, 1]))[0, 0, 2, 2].item() == pytest.approx(1)


def test_filters_are_set_up() -> None:
    assert setup_filter(None).tolist() == [[1]]
    # A number is one tap along each axis, so its square; StyleGAN's does the same.
    assert setup_filter(3.0, normalize=False).tolist() == [[9]]
    torch.testing.assert_close(setup_filter([1, 3]), torch.tensor([[1.0, 3], [3, 9]]) / 16)
    assert setup_filter(range(8)).shape == (8,)
    assert setup_filter(range(8), separable=False).shape == (8, 8)
    assert setup_filter([[1, 2], [3, 4]], normalize=False, flip_filter=True).tolist() == [[4, 3], [2, 1]]
    x = torch.randn(1, 1, 9, 9)
    for separable in (False, True):
        f = setup_filter([1, 2, 1], gain=4, separable=separable)
        torch.testing.assert_close(filter2d(x, f), 4 * filter2d(x, setup_filter([1, 2, 1])))
    for wrong, words in (([[[1.0]]], r"\(1, 1, 1\)"), ([], r"\(0,\)")):
        with pytest.raises(ArgumentValueError, match=words):
            setup_filter(wrong)
    with pytest.raises(ArgumentValueError, match="separable=True takes the taps along one axis"):
        setup_filter([[1.0]], separable=True)


def test_arguments_that_mean_nothing_are_refused() -> None:
    x, f = torch.randn(1, 1, 4, 4), torch.ones(3, 3)
    for arguments, kind, words in (
        ({"up": 0}, ArgumentValueError, "up is 0, expected 1 to 256"),
        ({"down": [1, 257]}, ArgumentValueError, r"down is \[1, 257\]"),
        ({"up": 1.5}, ArgumentTypeError, "up is float 1.5, expected an int or 2 of them"),
        ({"up": [1, 2, 3]}, ArgumentTypeError, "expected an int or 2"),
        ({"padding": [1, 2, 3]}, ArgumentTypeError, "expected an int or 2 or 4 of them"),
        ({"padding": True}, ArgumentTypeError, "padding is bool True"),
        ({"padding": -1}, ShapeError, "along y the filter has 3 taps, but after upsampling and padding there are 2"),
        ({"padding": [0, -2, 0, 0]}, ShapeError, "along x"),
        ({"impl": "cpu"}, ArgumentValueError, 'impl is \'cpu\', expected "cuda" or "ref"'),
    ):
        with pytest.raises(kind, match=words):
            upfirdn2d(x, f, **arguments)
    for image, taps, kind, words in (
        (x[0], f, ShapeError, r"x has 3 dimensions, expected a tensor \[N, C, H, W\]"),
        (x, f.double(), DtypeError, "f is float64, expected float32"),
        (x.int(), f, DtypeError, "x is int32"),
        (x, f[None], ArgumentValueError, r"f has the shape \(1, 3, 3\)"),
        (x, f[:0], ArgumentValueError, r"f has the shape \(0, 3\)"),
        (x, [1.0], ArgumentValueError, "f has the type list"),
        (x, f.clone().requires_grad_(), GradientError, r"no gradient of the filter f: give it f\.detach\(\)"),
    ):
        with pytest.raises(kind, match=words):
            upfirdn2d(image, taps)


@pytest.mark.parametrize("impl", ["cuda", "ref"])
def test_a_filter_on_another_device_is_refused(impl: str) -> None:
    x, f = torch.randn(1, 1, 4, 4), torch.ones(3, 3)
    with pytest.raises(DeviceError, match=r"upfirdn2d\(\): f is on meta, but x is on cpu"):
        upfirdn2d(x, f.to("meta"), impl=impl)
    with pytest.raises(DeviceError, match=r"upfirdn2d\(\): f is on cpu, but x is on meta"):
        upfirdn2d(x.to("meta"), f, impl=impl)
    assert torch.equal(upfirdn2d(x, f.to("cpu:0"), impl=impl), upfirdn2d(x, f, impl=impl))


def test_the_operator_refuses_by_itself() -> None:
    x, f = torch.randn(1, 1, 4, 4), torch.ones(3, 3)
    for call in (upfirdn2d_sized, upfirdn2d_sized.reference):
        for arguments, words in (
            ({"up_y": 0}, "up and down can be 1 to 256"),
            ({"down_x": 1 << 40}, "up and down can be 1 to 256"),
            ({"pad_x": -(1 << 62)}, "a padding has at most 31 bits"),
            ({"separable": True}, "a separable filter has two rows, its taps along y and along x; found 3"),
        ):
            with pytest.raises(Exception, match=words):
                call(x, f, 4, 4, 2, 2, **arguments)
        with pytest.raises(Exception, match="the filter has no taps"):
            call(x, f[:0], 4, 4, 2, 2)


def test_images_without_elements_and_far_paddings() -> None:
    f = setup_filter([1, 3, 3, 1])
    for shape in ((0, 3, 4, 4), (2, 0, 4, 4)):
        x = torch.randn(shape, requires_grad=True)
        y = upsample2d(x, f)
        assert y.shape == (*shape[:2], 8, 8)
        assert torch.autograd.grad(y.sum(), x)[0].shape == shape
    y = upfirdn2d(torch.randn(1, 2, 0, 3), f, padding=4)
    assert torch.equal(y, torch.zeros(1, 2, 5, 8))
    for pad in ([30, 1, -2, 9], [-1, 40, 60, 0], [-3, 5, -5, 90]):
        x = torch.randn(1, 1, 6, 5)
        torch.testing.assert_close(upfirdn2d(x, f, padding=pad), upfirdn2d(x, f, padding=pad, impl="ref"))
    outside = upfirdn2d_sized(torch.randn(1, 1, 3, 3), f, 3, 3, 2, 2, pad_y=-50, pad_x=70)
    assert torch.equal(outside, torch.zeros(1, 1, 2, 2))


def test_nan_and_infinities() -> None:
    f = setup_filter([1, 3, 3, 1])
    x = torch.zeros(1, 1, 8, 8)
    x[..., 4, 4] = float("nan")
    assert torch.equal(upsample2d(x, f).isnan(), upsample2d(x, f, impl="ref").isnan())
    for taps in (torch.tensor([[1.0, float("nan"), 1, 1]]), torch.tensor([1.0, float("nan"), 1])):
        # Also where the tap only meets zeros that were put between samples.
        assert upfirdn2d(torch.ones(1, 1, 4, 4), taps, up=4, padding=3).isnan().all()
    assert upfirdn2d(torch.full((1, 1, 2, 2), float("inf")), f[:1, :1]).isinf().all()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, f = torch.randn(3, 5, 200, 100), setup_filter(torch.rand(12))
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(upsample2d(x, f))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_vmap_and_functional_gradients() -> None:
    f = setup_filter([1, 3, 3, 1])
    x = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    expected = torch.stack([upsample2d(image, f) for image in x])
    torch.testing.assert_close(torch.func.vmap(lambda image: upsample2d(image, f))(x), expected)
    loss = lambda image: upsample2d(image, f).pow(3).sum()  # noqa: E731
    exact = lambda image: upsample2d(image, f, impl="ref").pow(3).sum()  # noqa: E731
    found = torch.func.vmap(torch.func.grad(loss))(x)
    torch.testing.assert_close(found, torch.func.vmap(torch.func.grad(exact))(x))


@pytest.mark.slow("compiles with Inductor")
@pytest.mark.parametrize("function", [upsample2d, downsample2d, filter2d])
def test_one_graph_serves_all_sizes(function: Any) -> None:
    f = setup_filter([1, 3, 3, 1])
    counter = CompileCounterWithBackend("aot_eager")
    traced = torch.compile(lambda x: function(x, f).sin(), fullgraph=True, dynamic=True, backend=counter)
    for height, width in ((6, 9), (13, 20), (17, 8)):
        leaves = [torch.randn(2, 3, height, width, requires_grad=True) for _ in range(2)]
        leaves[1].data.copy_(leaves[0].data)
        traced(leaves[0]).sum().backward()
        function(leaves[1], f).sin().sum().backward()
        torch.testing.assert_close(leaves[0].grad, leaves[1].grad)
    assert counter.frame_count == 1


def test_modules_own_their_filter() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float16)
    f = setup_filter([1, 3, 3, 1])
    for module, expected in (
        (Filter2d([1, 3, 3, 1]), filter2d(x, f)),
        (Upsample2d([1, 3, 3, 1], up=4, gain=2), upsample2d(x, f, up=4, gain=2)),
        (Downsample2d([1, 3, 3, 1]), downsample2d(x, f)),
    ):
        half = module.half()
        assert half.f.dtype == torch.float32
        assert torch.equal(half(x), expected)
        assert list(half.state_dict()) == ["f"]
        assert repr(half).endswith("(4 x 4 taps)")


def test_sizes_at_the_edges_of_vectors() -> None:
    f = setup_filter([1, 3, 3, 1])
    for width, channels in itertools.product((4, 15, 16, 17, 64, 65, 129), (1, 33)):
        x = torch.randn(1, channels, 3, width).to(memory_format=torch.channels_last)
        for function in (upsample2d, downsample2d, filter2d):
            torch.testing.assert_close(function(x, f), function(x, f, impl="ref"), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(function(x.contiguous(), f), function(x, f, impl="ref"), rtol=1e-5, atol=1e-5)


def counted(function: Any, *arguments: Tensor, **options: Any) -> tuple[int, int]:
    """Return the operations of a call and of its backward."""
    with FlopCounterMode(display=False) as forward:
        result = function(*arguments, **options)
    with FlopCounterMode(display=False) as backward:
        result.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def test_inserted_zeros_are_no_operations():
    x, taps = torch.randn(2, 3, 16, 20, requires_grad=True), setup_filter([1.0, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1])
    images, per_sample = 2 * 3, 12 // 2
    # To 32 x 40 along one axis and then the other, and back.
    forward = 2 * images * (32 * 20 * per_sample + 32 * 40 * per_sample)
    backward = 2 * images * (16 * 40 * 12 + 16 * 20 * 12)
    assert counted(upfirdn2d, x, taps, up=2, padding=[6, 5, 6, 5]) == (forward, backward)


def test_a_filter_alone_counts_as_a_convolution_does():
    x, f = torch.randn(2, 3, 16, 20, requires_grad=True), torch.randn(4, 3)
    with FlopCounterMode(display=False) as convolution:
        torch.nn.functional.conv2d(x, torch.randn(3, 1, 4, 3), stride=2, groups=3)
    found = counted(upfirdn2d, x, f, down=2)
    assert found[0] == convolution.get_total_flops() == 2 * 6 * 7 * 9 * 12
    assert found[1] == 2 * 6 * 16 * 20 * (2 * 2)
