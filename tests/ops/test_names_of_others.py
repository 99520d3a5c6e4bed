"""What StyleGAN2-ADA, StyleGAN3, mmcv and detectron2 call these operators, and what is made of them under their names."""

from __future__ import annotations

import inspect
import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import opsmith.ops.detectron2 as layers
import opsmith.ops.mmcv as mmcv_ops
from opsmith.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from opsmith.ops.stylegan import bias_act, conv2d_gradfix, conv2d_resample, filtered_lrelu, fma, upfirdn2d

pytestmark = pytest.mark.compile

# Module of torch_utils.ops, function, the arguments by position.
STYLEGAN = [
    (bias_act, "bias_act", "x b dim act alpha gain clamp impl"),
    (upfirdn2d, "setup_filter", "f device normalize flip_filter gain separable"),
    (upfirdn2d, "upfirdn2d", "x f up down padding flip_filter gain impl"),
    (upfirdn2d, "filter2d", "x f padding flip_filter gain impl"),
    (upfirdn2d, "upsample2d", "x f up padding flip_filter gain impl"),
    (upfirdn2d, "downsample2d", "x f down padding flip_filter gain impl"),
    (filtered_lrelu, "filtered_lrelu", "x fu fd b up down padding gain slope clamp flip_filter impl"),
    (conv2d_resample, "conv2d_resample", "x w f up down padding groups flip_weight flip_filter"),
    (fma, "fma", "a b c"),
]
# https://mmcv.readthedocs.io/en/2.x/api/ops.html
MMCV = [
    (mmcv_ops, "upfirdn2d", "input filter up down padding flip_filter gain use_custom_op"),
    (mmcv_ops, "bias_act", "input bias dim act alpha gain clamp use_custom_op"),
    (mmcv_ops, "fused_bias_leakyrelu", "input bias negative_slope scale"),
    (mmcv_ops, "FusedBiasLeakyReLU", "num_channels negative_slope scale"),
    (mmcv_ops, "deform_conv2d", "input offset weight stride padding dilation groups deform_groups bias im2col_step"),
    (
        mmcv_ops,
        "DeformConv2dPack",
        "in_channels out_channels kernel_size stride padding dilation groups deform_groups bias im2col_step",
    ),
    (
        mmcv_ops,
        "ModulatedDeformConv2dPack",
        "in_channels out_channels kernel_size stride padding dilation groups deform_groups bias",
    ),
    (mmcv_ops, "batched_nms", "boxes scores idxs nms_cfg class_agnostic"),
    (mmcv_ops, "soft_nms", "boxes scores iou_threshold sigma min_score method offset"),
    (mmcv_ops, "RoIPool", "output_size spatial_scale"),
    (
        mmcv_ops,
        "filtered_lrelu",
        "input filter_up filter_down bias up down padding gain slope clamp flip_filter use_custom_op",
    ),
]
# https://detectron2.readthedocs.io/en/latest/modules/layers.html
DETECTRON2 = [
    (layers, "ROIAlign", "output_size spatial_scale sampling_ratio aligned"),
    (layers, "batched_nms", "boxes scores idxs iou_threshold"),
    (layers, "paste_masks_in_image", "masks boxes image_shape threshold"),
    (layers, "deform_conv", "input offset weight stride padding dilation groups deformable_groups im2col_step"),
    *(
        (
            layers,
            name,
            "in_channels out_channels kernel_size stride padding dilation groups deformable_groups bias norm activation",
        )
        for name in ("DeformConv", "ModulatedDeformConv")
    ),
]


@pytest.mark.parametrize(
    ("module", "name", "arguments"), [*STYLEGAN, *MMCV, *DETECTRON2], ids=lambda value: str(value)[:30]
)
def test_arguments_have_their_names_and_order(module: object, name: str, arguments: str) -> None:
    # Those that are ours alone come behind.
    assert " ".join(inspect.signature(getattr(module, name)).parameters).startswith(arguments)


def test_activation_funcs_say_defaults_and_function() -> None:
    x = torch.linspace(-2, 2, 9)
    for name, one in bias_act.activation_funcs.items():
        torch.testing.assert_close(bias_act.bias_act(x, act=name), one.func(x, alpha=one.def_alpha) * one.def_gain)
    assert len(bias_act.activation_funcs) == 9
    assert bias_act.activation_funcs["lrelu"].def_gain == pytest.approx(2**0.5)
    assert bias_act.activation_funcs["lrelu"].func(torch.tensor(-1.0)).item() == pytest.approx(-0.2)


def test_mmcvs_names_call_the_operators() -> None:
    x, b, f = torch.randn(2, 3, 6, 6), torch.randn(3), upfirdn2d.setup_filter([1, 3, 3, 1])
    for own in (True, False):
        found = mmcv_ops.upfirdn2d(input=x, filter=f, up=2, down=[1, 2], padding=[2, 1, 3, 0], use_custom_op=own)
        torch.testing.assert_close(found, upfirdn2d.upfirdn2d(x, f, 2, [1, 2], [2, 1, 3, 0]))
        found = mmcv_ops.bias_act(input=x, bias=b, act="swish", clamp=0.5, use_custom_op=own)
        torch.testing.assert_close(found, bias_act.bias_act(x, b, act="swish", clamp=0.5))


def test_mmcvs_filtered_lrelu_and_roi_pool_have_its_arguments() -> None:
    x, b, f = torch.randn(2, 3, 8, 8), torch.randn(3), upfirdn2d.setup_filter([1, 3, 3, 1])
    expected = filtered_lrelu.filtered_lrelu(x, f, f, b, 2, 2, 3, clamp=0.5)
    for own in (True, False):
        found = mmcv_ops.filtered_lrelu(
            input=x, filter_up=f, filter_down=f, bias=b, up=2, down=2, padding=3, clamp=0.5, use_custom_op=own
        )
        torch.testing.assert_close(found, expected)
    assert mmcv_ops.RoIPool(7).spatial_scale == 1.0


def test_detectron2s_deform_conv_has_its_arguments() -> None:
    x, w, offset = torch.randn(1, 4, 6, 6), torch.randn(5, 4, 3, 3), torch.randn(1, 18, 6, 6)
    found = layers.deform_conv(x, offset, w, 1, 1, 1, 1, 1, 64)
    torch.testing.assert_close(found, mmcv_ops.deform_conv2d(x, offset, w, 1, 1, 1, 1, 1))


def test_fma_and_the_convolutions_are_pytorchs() -> None:
    a, b, c = torch.randn(2, 3, 4), torch.randn(3, 1), torch.randn(1, 4)
    torch.testing.assert_close(fma.fma(a, b, c), a * b + c)
    assert conv2d_gradfix.conv2d is functional.conv2d
    assert conv2d_gradfix.conv_transpose2d is functional.conv_transpose2d


def test_a_gradient_of_images_alone_and_then_of_weights() -> None:
    # As in StyleGAN's R1: the gradient of the images within, and the second, of the weights, behind it.
    x, w = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    with conv2d_gradfix.no_weight_gradients():
        (gradient,) = torch.autograd.grad(conv2d_gradfix.conv2d(x, w).pow(2).sum(), x, create_graph=True)
    assert w.grad is None
    gradient.square().sum().backward()
    assert w.grad is not None and w.grad.abs().sum() > 0


def by_definition(
    x: Tensor, w: Tensor, f: Tensor | None, up: int, down: int, padding: list[int], flips: tuple[bool, bool]
) -> Tensor:
    """The steps one by one, each at full size: upsample and pad, filter, convolve, filter, take every down-th."""
    taps_y, taps_x = (1, 1) if f is None else (f.shape[0], f.shape[-1])
    left, right, top, bottom = padding
    if up > 1:
        left, right = left + (taps_x + up - 1) // 2, right + (taps_x - up) // 2
        top, bottom = top + (taps_y + up - 1) // 2, bottom + (taps_y - up) // 2
    if down > 1:
        left, right = left + (taps_x - down + 1) // 2, right + (taps_x - down) // 2
        top, bottom = top + (taps_y - down + 1) // 2, bottom + (taps_y - down) // 2
    stuffed = x.new_zeros(*x.shape[:2], x.shape[2] * up, x.shape[3] * up)
    stuffed[..., ::up, ::up] = x
    taps = torch.ones(1, 1) if f is None else torch.outer(f.double(), f.double()) if f.ndim == 1 else f
    kernel = (taps if flips[1] else taps.flip(0, 1)).to(x.dtype)

    def filtered(images: Tensor) -> Tensor:
        channels = images.shape[1]
        return functional.conv2d(images, kernel.expand(channels, 1, *kernel.shape), groups=channels)

    y = functional.pad(stuffed, (left, right, top, bottom))
    y = filtered(y) * up**2 if up > 1 else y
    y = functional.conv2d(y, w if flips[0] else w.flip(2, 3), groups=x.shape[1] // w.shape[1])
    return (filtered(y) if down > 1 else y)[..., ::down, ::down]


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (2, 5)], ids=str)
@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (2, 3)])
def test_a_resampling_convolution_is_its_definition(up: int, down: int, kernel: tuple[int, int]) -> None:
    torch.manual_seed(0)
    filters = (None, upfirdn2d.setup_filter([[1, 3, 2, 1], [0, 1, 5, 2]]), upfirdn2d.setup_filter(range(1, 10)))
    x = torch.randn(2, 4, 9, 11, dtype=torch.float64)
    for f, groups, flips in itertools.product(filters, (1, 2), ((True, False), (False, True))):
        w = torch.randn(6, 4 // groups, *kernel, dtype=torch.float64)
        for given, padding in ((1, [1] * 4), ([3, -1, 2, 4], [3, -1, 2, 4])):
            found = conv2d_resample.conv2d_resample(x, w, f, up, down, given, groups, *flips)
            torch.testing.assert_close(found, by_definition(x, w, f, up, down, padding, flips))


@pytest.mark.slow("finite differences of second gradients")
def test_a_resampling_convolution_has_second_gradients() -> None:
    f = upfirdn2d.setup_filter([1, 2, 1])
    for up, down in ((2, 1), (1, 2)):
        x = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
        w = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
        call = lambda x, w: conv2d_resample.conv2d_resample(x, w, f, up=up, down=down, padding=1)  # noqa: B023, E731
        assert torch.autograd.gradgradcheck(call, (x, w))


def test_a_resampling_convolution_refuses_what_means_nothing() -> None:
    x, w = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3)
    for arguments, kind, words in (
        ({"x": x[0]}, ShapeError, "x and w have 3 dimensions and 4 dimensions"),
        ({"w": [1.0]}, ShapeError, "4 dimensions and list"),
        ({"up": 0}, ArgumentValueError, "up is 0, expected 1 or more"),
        ({"down": 2.0}, ArgumentTypeError, "down is 2.0, expected an int"),
        ({"padding": [1, 2, 3]}, ArgumentTypeError, r"conv2d_resample\(\): padding is list \[1, 2, 3\]"),
        ({"f": torch.ones(1, 1, 1)}, ArgumentValueError, r"conv2d_resample\(\): f has the shape \(1, 1, 1\)"),
    ):
        with pytest.raises(kind, match=words):
            conv2d_resample.conv2d_resample(**{"x": x, "w": w, **arguments})


@pytest.mark.parametrize("groups", [1, 2])
def test_a_packed_convolution_begins_as_a_plain_one_and_deforms_by_its_input(groups: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64)
    numbers = {"stride": 2, "padding": 1, "dilation": 1}
    plain = mmcv_ops.DeformConv2dPack(4, 6, 3, **numbers, groups=groups, deform_groups=2).double()
    masked = mmcv_ops.ModulatedDeformConv2dPack(4, 6, 3, **numbers, groups=groups, deform_groups=2).double()
    assert set(plain.state_dict()) == {"weight", "conv_offset.weight", "conv_offset.bias"}
    assert set(masked.state_dict()) == {"weight", "bias", "conv_offset.weight", "conv_offset.bias"}
    torch.testing.assert_close(plain(x), functional.conv2d(x, plain.weight, None, **numbers, groups=groups))
    half = functional.conv2d(x, 0.5 * masked.weight, masked.bias, **numbers, groups=groups)  # sigmoid(0)
    torch.testing.assert_close(masked(x), half)
    for module in (plain, masked):
        torch.nn.init.normal_(module.conv_offset.weight)
    moved = plain.conv_offset(x)
    own = mmcv_ops.deform_conv2d(x, moved, plain.weight, 2, 1, 1, groups, 2)
    torch.testing.assert_close(plain(x), own)
    out = masked.conv_offset(x)
    taps = mmcv_ops.modulated_deform_conv2d(
        x, out[:, :36], out[:, 36:].sigmoid(), masked.weight, masked.bias, 2, 1, 1, groups, 2
    )
    torch.testing.assert_close(masked(x), taps)


def test_detectron2s_layers_are_convolutions_with_what_comes_behind() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64)
    offset, mask = torch.randn(2, 18, 7, 6, dtype=torch.float64), torch.rand(2, 9, 7, 6, dtype=torch.float64)
    first = layers.DeformConv(4, 6, 3, padding=1, norm=torch.nn.BatchNorm2d(6), activation=torch.relu).double().eval()
    second = layers.ModulatedDeformConv(4, 6, 3, padding=1, activation=torch.tanh).double()
    torch.testing.assert_close(
        first(x, offset), torch.relu(first.norm(mmcv_ops.deform_conv2d(x, offset, first.weight, 1, 1)))
    )
    torch.testing.assert_close(
        second(x, offset, mask),
        mmcv_ops.modulated_deform_conv2d(x, offset, mask, second.weight, second.bias, 1, 1).tanh(),
    )
    assert "norm.running_mean" in first.state_dict()
    assert first(x[:0], offset[:0]).shape == (0, 6, 7, 6)
    rois = torch.tensor([[0, 1.0, 2, 5, 6], [1, 0, 0, 3, 3]], dtype=torch.float64)
    aligned = layers.ROIAlign((2, 3), 0.5, 2)(x, rois)
    torch.testing.assert_close(aligned, layers.roi_align(x, rois, (2, 3), 0.5, 2, True))
    assert repr(layers.ROIAlign((2, 3), 0.5, 2)) == (
        "ROIAlign(output_size=(2, 3), spatial_scale=0.5, sampling_ratio=2, aligned=True)"
    )


def test_detectron2s_masks_fill_their_boxes() -> None:
    masks = torch.rand(3, 7, 7, generator=torch.Generator().manual_seed(0))
    boxes = torch.tensor([[2.0, 3.0, 9.0, 10.0], [-3.5, 1.2, 4.1, 9.9], [5.0, 5.0, 20.3, 18.0]])
    found = layers.paste_masks_in_image(masks, boxes, (12, 15))
    assert found.dtype == torch.bool
    assert found.shape == (3, 12, 15)
    # The first box has as many pixels as its mask.
    assert torch.equal(found[0, 3:10, 2:9], masks[0] >= 0.5)
    assert found[0].sum() == (masks[0] >= 0.5).sum()
    assert torch.equal(layers.paste_masks_in_image(masks, SimpleNamespace(tensor=boxes), (12, 15), 0.5), found)
    grey = layers.paste_masks_in_image(masks, boxes, (12, 15), threshold=-1)
    assert grey.dtype == torch.uint8
    assert torch.equal(grey[0, 3:10, 2:9], (masks[0] * 255).to(torch.uint8))


def test_a_bias_that_they_do_not_have_is_refused() -> None:
    for make in (mmcv_ops.DeformConv2d, mmcv_ops.DeformConv2dPack, layers.DeformConv):
        with pytest.raises(AssertionError, match="bias"):
            make(4, 6, 3, bias=True)
    x = torch.randn(1, 4, 5, 5)
    with pytest.raises(AssertionError, match="bias"):
        mmcv_ops.deform_conv2d(x, torch.zeros(1, 18, 5, 5), torch.randn(6, 4, 3, 3), 1, 1, bias=True)
    with pytest.raises(ShapeError, match="4 channels, but weight has 4 for each of 2 groups"):
        mmcv_ops.deform_conv2d(x, torch.zeros(1, 18, 5, 5), torch.randn(6, 4, 3, 3), 1, 1, groups=2)
