"""deform_conv2d: sample by sample against loops in Python, kernels against the body, and torchvision's own rules."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy
import pytest
import torch
from deform_conv2d_calls import FORMS, TYPES, most_summands, near, numbers, reference, tensors
from layouts import laid_out
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from opsmith.errors import ArgumentValueError, DtypeError
from opsmith.ops.deform_conv2d import (
    DeformConv2d,
    deform_conv2d,
    deform_conv2d_sized,
)
from opsmith.ops.deform_conv2d.mmcv import ModulatedDeformConv2d, modulated_deform_conv2d

pytestmark = pytest.mark.compile

NAN, INF = math.nan, math.inf


def sample(plane: Any, y: float, x: float) -> float:
    """A plane's value between its pixels; those outside are zero."""
    height, width = plane.shape
    if y <= -1 or y >= height or x <= -1 or x >= width:
        return 0.0
    total = 0.0
    for row, column in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= row < height and 0 <= column < width:
            total += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[row, column]
    return total


def by_hand(
    image: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    stride: tuple[int, int],
    pad: tuple[int, int],
    step: tuple[int, int],
) -> Tensor:
    """One image's convolution from the definition, a product at a time: an oracle that shares nothing with the body."""
    pixels, shifts, factors = image.numpy(), offset.numpy(), weight.numpy()
    outputs, channels, taps_y, taps_x = factors.shape
    groups = len(pixels) // channels
    shift_groups = len(shifts) // (2 * taps_y * taps_x)
    found = numpy.zeros((outputs, *shifts.shape[1:]))
    for o, i, j in itertools.product(*map(range, found.shape)):
        for c, ky, kx in itertools.product(range(channels), range(taps_y), range(taps_x)):
            channel = o // (outputs // groups) * channels + c
            tap = (channel // (len(pixels) // shift_groups) * taps_y + ky) * taps_x + kx
            y = i * stride[0] - pad[0] + ky * step[0] + shifts[2 * tap, i, j]
            x = j * stride[1] - pad[1] + kx * step[1] + shifts[2 * tap + 1, i, j]
            share = 1.0 if mask is None else float(mask[tap, i, j])
            found[o, i, j] += factors[o, c, ky, kx] * share * sample(pixels[channel], y, x)
    return torch.from_numpy(found)


@pytest.mark.parametrize("modulated", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_convolutions_by_hand(form: Any, modulated: bool) -> None:
    made = tensors(form, 2, (6, 5), 1, modulated)
    found = deform_conv2d(**made, **numbers(form))
    for image in (0, 1):
        mask = made["mask"][image] if modulated else None
        expected = by_hand(made["input"][image], made["offset"][image], made["weight"], mask, *form[5:])
        torch.testing.assert_close(found[image], expected + made["bias"][:, None, None])


def test_tf32_in_the_definition_is_a_rounding_of_the_factors_to_ten_bits() -> None:
    def product(sample: float, weight: float) -> float:
        one = torch.ones(1, 1, 1, 1)
        return float(deform_conv2d_sized.reference(sample * one, torch.zeros(1, 2, 1, 1), weight * one, tf32=True))

    kept = 1 + 2**-10
    assert product(kept, kept) == kept * kept
    assert product(kept + 2**-12, -kept + 2**-12) == -kept * kept
    assert product(1 + 2**-11, 1) == kept  # a tie
    assert math.isnan(product(math.nan, 1)) and product(-math.inf, 1) == -math.inf


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_without_offsets_it_is_a_convolution(form: Any) -> None:
    made = tensors(form, 2, (9, 8), 2, modulated=False)
    made["offset"].zero_()
    expected = torch.nn.functional.conv2d(
        made["input"], made["weight"], made["bias"], form[5], form[6], form[7], groups=form[2]
    )
    torch.testing.assert_close(deform_conv2d(**made, **numbers(form)), expected)


def cases() -> list[Any]:
    """Every form in every type, in one layout after the other."""
    layouts = itertools.cycle(["contiguous", "channels_last", "transposed", "inner", "channels_last"])
    return [
        pytest.param(*case, next(layouts), id=str(number))
        for number, case in enumerate(itertools.product(FORMS, TYPES))
    ]


@pytest.mark.parametrize(("form", "dtype", "layout"), cases())
def test_agrees_with_the_definition(form: Any, dtype: torch.dtype, layout: str) -> None:
    draw = random.Random(f"{form}{dtype}{layout}")
    size = (draw.randint(5, 13), draw.randint(4, 15))
    made = tensors(form, draw.choice([1, 3]), size, 3, modulated=draw.random() < 0.7)
    leaves = {
        name: (laid_out(one.to(dtype), layout) if one.dim() == 4 else one.to(dtype)).requires_grad_()
        for name, one in made.items()
    }
    exact = {name: one.detach().double().requires_grad_() for name, one in leaves.items()}
    found = deform_conv2d(**leaves, **numbers(form))
    expected = reference(exact, form)
    assert found.dtype == dtype
    assert layout != "channels_last" or found.is_contiguous(memory_format=torch.channels_last)
    summands = most_summands(form, made, expected)
    near(found.detach(), expected.detach(), summands)
    outer = torch.randn(expected.shape, generator=torch.Generator().manual_seed(4)).to(dtype)
    by_kernel = torch.autograd.grad(found, list(leaves.values()), laid_out(outer, layout))
    by_autograd = torch.autograd.grad(expected, list(exact.values()), outer.double())
    for one, other in zip(by_kernel, by_autograd, strict=True):
        near(one, other, summands)


@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_gradients_are_those_of_finite_differences(form: Any) -> None:
    made = [one.requires_grad_() for one in tensors(form, 1, (4, 4), 5).values()]

    def function(*given: Tensor) -> Tensor:
        image, offset, weight, bias, mask = given
        return deform_conv2d(image, offset, weight, bias, mask=mask, **numbers(form))

    assert torch.autograd.gradcheck(function, made, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, made, fast_mode=True)


def test_each_gradient_alone() -> None:
    form = FORMS[1]
    made = tensors(form, 2, (6, 7), 6)
    exact = {name: one.clone().requires_grad_() for name, one in made.items()}
    expected = torch.autograd.grad(reference(exact, form).sin().sum(), list(exact.values()))
    for (name, one), gradient in zip(made.items(), expected, strict=True):
        leaf = one.clone().requires_grad_()
        (found,) = torch.autograd.grad(deform_conv2d(**{**made, name: leaf}, **numbers(form)).sin().sum(), leaf)
        torch.testing.assert_close(found, gradient)


def one_sample(image: Tensor, y: float, x: float) -> tuple[Tensor, Tensor, Tensor]:
    """What a filter of one tap finds at a point, and the gradients of the image and of the offset."""
    leaf = image.clone().requires_grad_()
    offset = torch.tensor([y, x]).view(1, 2, 1, 1).expand(1, 2, *image.shape[2:]).clone()
    offset[:, 0] -= torch.arange(image.shape[2])[:, None]
    offset[:, 1] -= torch.arange(image.shape[3])
    offset.requires_grad_()
    found = deform_conv2d(leaf, offset, torch.ones(1, image.shape[1], 1, 1))
    assert torch.equal(found.isnan(), found[:, :, :1, :1].isnan().expand_as(found))
    gradients = torch.autograd.grad(found[0, 0, 0, 0], (leaf, offset))
    return found[0, 0, 0, 0].detach(), gradients[0], gradients[1][0, :, 0, 0]


@pytest.mark.parametrize("place", [INF, -INF, -1.0, 4.0, -1.5, 1e30, -1e30], ids=str)
def test_outside_is_zero_be_the_image_nan(place: float) -> None:
    image = torch.full((1, 33, 4, 4), NAN)
    for y, x in ((place, 1.5), (1.5, place), (place, NAN), (NAN, place)):
        value, grad_image, grad_offset = one_sample(image, y, x)
        assert value == 0
        assert not grad_image.count_nonzero()
        assert not grad_offset.count_nonzero()


def test_a_nan_offset_gives_nan_and_touches_no_pixel() -> None:
    for y, x in ((NAN, 1.5), (1.5, NAN), (NAN, NAN)):
        value, grad_image, _ = one_sample(torch.ones(1, 33, 4, 4), y, x)
        assert value.isnan()
        assert not grad_image.count_nonzero()


def test_only_pixels_of_the_image_take_part() -> None:
    image = torch.zeros(1, 2, 4, 4)
    image[0, 0, 0, 0] = NAN
    image[0, 0, 3, 3] = INF
    assert one_sample(image, 1.5, 1.5)[0] == 0
    assert one_sample(image, 3.5, 2.5)[0] == INF
    assert one_sample(image, -0.5, 1.25)[0] == 0
    assert one_sample(image, -0.5, 0.25)[0].isnan()


def test_on_a_pixel_the_gradient_of_the_offset_is_that_towards_the_larger_coordinate() -> None:
    image = torch.tensor([[1.0, 2.0, 4.0], [7.0, 11.0, 16.0], [22.0, 29.0, 37.0]]).view(1, 1, 3, 3)
    value, _, gradient = one_sample(image, 1.0, 1.0)
    assert value == 11
    assert gradient.tolist() == [18.0, 5.0]


def test_tensors_without_elements() -> None:
    for images, channels, outputs in ((0, 3, 2), (2, 0, 2), (2, 3, 0)):
        arguments = [
            torch.randn(images, channels, 4, 4),
            torch.randn(images, 18, 4, 4),
            torch.randn(outputs, channels, 3, 3),
            torch.randn(outputs),
        ]
        leaves = [one.requires_grad_() for one in arguments]
        found = deform_conv2d_sized(*leaves, None, 1, 1, 1, 1)
        assert found.shape == (images, outputs, 4, 4)
        torch.testing.assert_close(found, leaves[3][:, None, None].expand_as(found))
        gradients = torch.autograd.grad(found.sum(), leaves)
        for gradient, leaf in zip(gradients[:3], leaves[:3], strict=True):
            assert gradient.shape == leaf.shape
            assert not gradient.count_nonzero()
        torch.testing.assert_close(gradients[3], torch.full((outputs,), 16.0 * images))


def test_what_does_not_fit_is_refused_in_torchvisions_words() -> None:
    form = FORMS[1]
    made = tensors(form, 2, (6, 5), 7)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"offset": made["offset"][:, :2]}, "the shape of the offset tensor at dimension 1 is not valid"),
        ({"offset": made["offset"][:, :-1]}, r"offset.shape\[1\] is not valid: got: 35 expected: 24"),
        ({"mask": made["mask"][:, :2]}, r"mask.shape\[1\] is not valid: got: 2 expected: 18"),
        ({"offset": made["offset"][:1]}, "invalid batch size of offset"),
        ({"mask": made["mask"][:1]}, "invalid batch size of mask"),
        ({"offset": made["offset"][:, :, 1:]}, r"offset output dims: \(2, 3\) - computed output dims: \(3, 3\)"),
        ({"mask": made["mask"][..., 1:]}, r"mask output dims: \(3, 2\) - computed output dims: \(3, 3\)"),
        ({"weight": made["weight"][:3]}, "3 output channels, which is not a multiple of its 2 groups"),
        ({"weight": made["weight"].repeat(1, 3, 1, 1)}, "6 channels, which is not a multiple of the weight's 9"),
        ({"input": made["input"][0]}, "input has 3 dimensions, expected 4"),
        ({"stride": 0}, "stride_h: 0 stride_w: 0"),
        ({"padding": -1}, "pad_h: -1 pad_w: -1"),
        ({"dilation": (1, 0)}, "dil_h: 1 dil_w: 0"),
    ]
    for change, words in wrong:
        with pytest.raises(RuntimeError, match=words):
            deform_conv2d(**{**made, **numbers(form), **change})
    with pytest.raises(DtypeError, match="offset"):
        deform_conv2d(**{**made, "offset": made["offset"].float()}, **numbers(form))
    with pytest.raises(RuntimeError, match="Calculated output size too small - out_h: 0 out_w: 0"):
        deform_conv2d(torch.ones(1, 1, 2, 2), torch.ones(1, 18, 0, 0), torch.ones(1, 1, 3, 3))
    for function in (deform_conv2d_sized, deform_conv2d_sized.reference):
        arguments = torch.ones(1, 3, 4, 4), torch.ones(1, 4, 4, 4), torch.ones(3, 3, 1, 1)
        with pytest.raises(Exception, match="input has 3 channels, not a multiple of offset_groups = 2"):
            function(*arguments, offset_groups=2)
        with pytest.raises(Exception, match="strides, paddings and dilations have at most 31 bits"):
            function(arguments[0], arguments[1][:, :2], arguments[2], stride_y=1 << 32)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    form = FORMS[5]
    made = {name: one.float() for name, one in tensors(form, 3, (20, 17), 8).items()}
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            leaves = {name: one.clone().requires_grad_() for name, one in made.items()}
            result = deform_conv2d(**leaves, **numbers(form))
            found.append((result, *torch.autograd.grad(result.pow(2).sum(), list(leaves.values()))))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_vmap_and_functional_gradients() -> None:
    form = FORMS[0]
    made = tensors(form, 2, (5, 6), 9)
    many = torch.randn(3, *made["input"].shape, dtype=torch.float64)
    rest = {name: one for name, one in made.items() if name != "input"}
    single = lambda image: deform_conv2d(image, **rest, **numbers(form))  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(single)(many), torch.stack([single(one) for one in many]))
    loss = lambda image: single(image).pow(3).sum()  # noqa: E731
    found = torch.func.vmap(torch.func.grad(loss))(many)
    torch.testing.assert_close(found, torch.stack([torch.func.grad(loss)(one) for one in many]))


@pytest.mark.parametrize("given", ["float32", "bfloat16", "mixed"])
def test_autocast_computes_in_float32_and_returns_the_inputs_type(given: str) -> None:
    form = FORMS[0]
    wide = {name: one.float() for name, one in tensors(form, 2, (5, 6), 9).items()}
    made = {
        name: one.bfloat16() if given == "bfloat16" or (given == "mixed" and name in ("input", "offset")) else one
        for name, one in wide.items()
    }
    leaves = {name: one.requires_grad_() for name, one in made.items()}
    with torch.autocast("cpu", torch.bfloat16):
        found = deform_conv2d(**leaves, **numbers(form))
    expected = deform_conv2d(**{name: one.float() for name, one in made.items()}, **numbers(form))
    assert found.dtype == made["input"].dtype
    assert torch.equal(found, expected.to(found.dtype))
    gradients = torch.autograd.grad(found.float().sum(), list(leaves.values()))
    assert [one.dtype for one in gradients] == [one.dtype for one in leaves.values()]


def test_autocast_computes_in_the_low_type_where_that_is_asked_for() -> None:
    form = FORMS[0]
    made = {name: one.float() for name, one in tensors(form, 2, (5, 6), 9).items()}
    low = deform_conv2d(**{name: one.bfloat16() for name, one in made.items()}, **numbers(form))
    module = DeformConv2d(1, 1, 1, autocast="low")
    module.weight, module.bias = torch.nn.Parameter(made["weight"]), torch.nn.Parameter(made["bias"])
    module.stride, module.padding, module.dilation = numbers(form).values()
    with torch.autocast("cpu", torch.bfloat16):
        found = deform_conv2d(**made, **numbers(form), autocast="low")
        of_module = module(made["input"], made["offset"], made["mask"])
        of_mmcv = modulated_deform_conv2d(
            made["input"], made["offset"], made["mask"], made["weight"], made["bias"], *numbers(form).values()
        )
    for result in (found, of_module, of_mmcv):
        assert result.dtype == torch.bfloat16 and torch.equal(result, low)
    of_module.float().sum().backward()
    assert module.weight.grad.dtype == torch.float32
    plain = deform_conv2d(**made, **numbers(form), autocast="low")
    assert torch.equal(plain, deform_conv2d(**made, **numbers(form)))
    wide = {name: one.double() for name, one in made.items()}
    with torch.autocast("cpu", torch.bfloat16):
        assert deform_conv2d(**wide, **numbers(form), autocast="low").dtype == torch.float64
    for call in (lambda: deform_conv2d(**made, autocast="lower"), lambda: DeformConv2d(1, 1, 1, autocast="lower")):
        with pytest.raises(ArgumentValueError, match=r"""autocast is 'lower', expected "float32" or "low\""""):
            call()


@pytest.mark.slow("compiles with Dynamo")
@pytest.mark.parametrize("rule", ["float32", "low"])
def test_autocast_inside_a_graph(rule: str) -> None:
    form = FORMS[0]
    made = {name: one.float() for name, one in tensors(form, 2, (5, 6), 9).items()}
    function = lambda made: deform_conv2d(**made, **numbers(form), autocast=rule)  # noqa: E731
    traced = torch.compile(function, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = function(made), traced(made)
    assert found.dtype == (torch.bfloat16 if rule == "low" else torch.float32)
    assert torch.equal(found, expected)


@pytest.mark.slow("compiles with Inductor")
def test_one_graph_serves_all_sizes() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    form = FORMS[0]
    function = lambda made: deform_conv2d(**made, **numbers(form)).sin()  # noqa: E731
    traced = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for images, height, width in ((2, 11, 23), (5, 13, 20), (7, 17, 8)):
        made = tensors(form, images, (height, width), images)
        leaves = [{name: one.clone().requires_grad_() for name, one in made.items()} for _ in range(2)]
        traced(leaves[0]).sum().backward()
        function(leaves[1]).sum().backward()
        for name, one in leaves[0].items():
            torch.testing.assert_close(one.grad, leaves[1][name].grad)
    assert counter.frame_count == 1


def test_the_modules_are_the_functions() -> None:
    torch.manual_seed(0)
    module = DeformConv2d(6, 4, (3, 2), padding=(1, 0), groups=2)
    made = {
        name: one.float() for name, one in tensors((6, 4, 2, 3, (3, 2), (1, 1), (1, 0), (1, 1)), 2, (6, 5), 1).items()
    }
    expected = deform_conv2d(
        made["input"], made["offset"], module.weight, module.bias, padding=(1, 0), mask=made["mask"]
    )
    assert torch.equal(module(made["input"], made["offset"], made["mask"]), expected)
    text = "DeformConv2d(6, 4, kernel_size=(3, 2), stride=(1, 1), padding=(1, 0), groups=2)"
    assert repr(module) == text
    assert repr(DeformConv2d(1, 1, 1, dilation=2, bias=False)).endswith("stride=(1, 1), dilation=(2, 2), bias=False)")
    assert float(module.bias.detach().abs().max()) <= 1 / math.sqrt(18)
    modulated = ModulatedDeformConv2d(6, 4, (3, 2), 1, (1, 0), groups=2, deform_groups=3)
    assert not modulated.bias.count_nonzero()
    modulated.load_state_dict(module.state_dict())
    assert torch.equal(modulated(made["input"], made["offset"], made["mask"]), expected)
    with pytest.raises(RuntimeError, match=r"offset.shape\[1\] is not valid: got: 36 expected: 24"):
        modulated_deform_conv2d(
            made["input"], made["offset"], made["mask"], module.weight, padding=(1, 0), groups=2, deform_groups=2
        )
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        DeformConv2d(5, 4, 3, groups=2)
    with pytest.raises(ValueError, match="out_channels must be divisible by groups"):
        ModulatedDeformConv2d(4, 5, 3, groups=2)


def test_torchscript_compiles_function_and_module() -> None:
    form = FORMS[1]
    made = tensors(form, 2, (6, 5), 7)
    given = numbers(form)
    expected = deform_conv2d(**made, **given)
    script = torch.jit.script(deform_conv2d)
    assert torch.equal(script(**made, **given), expected)
    with pytest.raises(torch.jit.Error, match=r"mask output dims: \(3, 2\) - computed output dims: \(3, 3\)"):
        script(**{**made, "mask": made["mask"][..., 1:]}, **given)
    module = DeformConv2d(6, 4, (2, 3), stride=2, padding=1, bias=False).double()
    arguments = (made["input"][:, :6], torch.zeros(2, 12, 4, 3, dtype=torch.float64))
    assert torch.equal(torch.jit.script(module)(*arguments), module(*arguments))
