"""Convolutions that cuDNN fuses with what is behind them compute what single operators do, and so do their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from opsmith_detection.models import fused, layers
from opsmith_detection.models.layers import ConvNorm
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from opsmith.ops.bias_act import bias_activation_backward

SHAPES = pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (3, 2)])


def inputs_of(kernel: int, stride: int, device: str, dtype: torch.dtype, *, residual: bool) -> list[Tensor | None]:
    """Return a convolution's input, weight, bias, and what is added to its result."""
    torch.manual_seed(0)
    like = {"device": device, "dtype": dtype}
    x = torch.randn(2, 8, 12, 10, **like).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(16, 8, kernel, kernel, **like) / kernel
    bias = torch.randn(16, **like)
    added = torch.randn_like(functional.conv2d(x, weight, bias, stride, kernel // 2)) if residual else None
    return [each if each is None else each.requires_grad_() for each in (x, weight, bias, added)]


def sums(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, stride: int, padding: int) -> Tensor:
    """Return what comes before the ReLU."""
    y = functional.conv2d(x, weight, bias, stride, padding)
    return y if residual is None else y + residual


@pytest.fixture
def without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace cuDNN's operators by single ones, so that a CPU has them."""

    def relu(
        x: Tensor, weight: Tensor, bias: Tensor, stride: Sequence[int], padding: Sequence[int], *_: object
    ) -> Tensor:
        return functional.conv2d(x, weight, bias, stride, padding).relu()

    def add_relu(x: Tensor, weight: Tensor, z: Tensor, alpha: float, bias: Tensor, *more: Sequence[int]) -> Tensor:
        return functional.conv2d(x, weight, bias, *more[:2]).add(z, alpha=alpha).relu()

    monkeypatch.setattr(torch, "cudnn_convolution_relu", relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", add_relu)


def compare(inputs: Sequence[Tensor | None], stride: int, **tolerances: float) -> None:
    """Compare with single operators in at least float32, whose ReLU lets through what ours does: near 0 rounding decides."""
    padding = inputs[1].shape[2] // 2
    y = fused.conv_relu(*inputs, stride, padding)
    kind = torch.promote_types(y.dtype, torch.float32)
    exact = [each if each is None else each.detach().to(kind).requires_grad_(each.requires_grad) for each in inputs]
    before = sums(*exact, stride, padding)
    torch.testing.assert_close(y.to(kind), before.relu(), **tolerances)
    gradient = torch.randn_like(y)
    wanted, of_exact = ([each for each in some if each is not None and each.requires_grad] for some in (inputs, exact))
    found = torch.autograd.grad(y, wanted, gradient)
    expected = torch.autograd.grad(before, of_exact, torch.where(y > 0, gradient, 0).to(kind))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.to(kind), other, **tolerances)


@SHAPES
@pytest.mark.parametrize("residual", [False, True])
def test_gradients_are_those_of_single_operators(without_cudnn, kernel, stride, residual):
    compare(inputs_of(kernel, stride, "cpu", torch.float64, residual=residual), stride)


@pytest.mark.parametrize("frozen", [(1, 2), (0,), (0, 1, 2)])
def test_what_has_no_gradient_gets_none(without_cudnn, frozen):
    inputs = inputs_of(3, 1, "cpu", torch.float64, residual=True)
    for index in frozen:
        inputs[index].requires_grad_(False)
    compare(inputs, 1)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("frozen", [None, 0, 1])
def test_bias_and_relu_are_those_of_single_operators_and_keep_the_result_alone(layout, frozen):
    torch.manual_seed(0)
    x = torch.randn(3, 5, 4, 6, dtype=torch.float64).contiguous(memory_format=layout)
    inputs = [x.requires_grad_(), torch.randn(5, dtype=torch.float64, requires_grad=True)]
    if frozen is not None:
        inputs[frozen].requires_grad_(False)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each.data_ptr()) or each, lambda each: each):
        y = fused.bias_relu(*inputs)
    assert kept == [y.data_ptr()]
    expected = (x + inputs[1][:, None, None]).relu()
    torch.testing.assert_close(y, expected)
    gradient, wanted = torch.randn_like(y), [each for each in inputs if each.requires_grad]
    found = torch.autograd.grad(y, wanted, gradient)
    torch.testing.assert_close(found, torch.autograd.grad(expected, wanted, gradient))


def compare_bias(x: Tensor, **tolerances: float) -> None:
    """Compare the gradients of a sum with a bias with those of a single operator, in at least float32."""
    kind = torch.promote_types(x.dtype, torch.float32)
    inputs = [x.requires_grad_(), torch.randn(x.shape[1], device=x.device).to(kind).requires_grad_()]
    y = fused.add_bias(*inputs)
    assert y.dtype == x.dtype
    exact = [each.detach().to(kind).requires_grad_() for each in inputs]
    expected = exact[0] + exact[1].to(x.dtype)[:, None, None]
    torch.testing.assert_close(y.to(kind), expected, **tolerances)
    gradient = torch.randn_like(y)
    found = torch.autograd.grad(y, inputs, gradient)
    wanted = torch.autograd.grad(expected, exact, gradient.to(kind))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.to(kind), other, **tolerances)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("is_product", [False, True])
def test_the_gradient_of_a_bias_is_the_sum_over_pixels(monkeypatch, layout, is_product):
    monkeypatch.setattr(fused, "fuses", lambda *_: is_product)
    torch.manual_seed(0)
    compare_bias(torch.randn(3, 5, 4, 6, dtype=torch.float64).contiguous(memory_format=layout))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(2, 3, 8, 12), (2, 3, 7, 12), (2, 3, 1, 1), (1, 1, 2, 2)])
@pytest.mark.parametrize("frozen", [None, 0, 1])
def test_what_is_coarser_is_enlarged_and_added(layout, shape, frozen):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64).contiguous(memory_format=layout)
    coarse = torch.randn(*shape[:2], -(-shape[2] // 2), -(-shape[3] // 2), dtype=torch.float64)
    inputs = [each.requires_grad_(number != frozen) for number, each in enumerate((x, coarse))]
    expected = x + functional.interpolate(coarse, size=shape[2:], mode="nearest")
    overwritten = 1 * x
    found = fused.add_enlarged(overwritten, coarse)
    assert found.data_ptr() == overwritten.data_ptr()
    assert torch.equal(found, expected)
    gradient, wanted = torch.randn_like(found), [each for each in inputs if each.requires_grad]
    of_found, of_expected = (torch.autograd.grad(each, wanted, gradient) for each in (found, expected))
    torch.testing.assert_close(of_found, of_expected)


@pytest.mark.parametrize("norm", [None, "frozen", "batch", "group"])
@pytest.mark.parametrize("deformable", [False, True])
def test_a_layer_and_its_bias_are_the_layer(norm, deformable):
    torch.manual_seed(0)
    layer = ConvNorm(8, 32, 3, norm=norm, relu=False, deformable=deformable).double()
    with torch.no_grad():
        for value in (*layer.parameters(), *layer.buffers()):
            value.uniform_(0.5, 1.5) if value.is_floating_point() else None
    x = torch.randn(2, 8, 6, 6, dtype=torch.float64)
    part, bias = layer.without_bias(x)
    assert (bias is None) == (deformable or norm in ("batch", "group"))
    torch.testing.assert_close(part if bias is None else fused.add_bias(part, bias), layer(x))


@pytest.mark.parametrize("norm", [None, "frozen", "batch", "group"])
@pytest.mark.parametrize("relu", [False, True])
def test_a_shift_is_added_before_the_relu(norm, relu):
    torch.manual_seed(0)
    layer = ConvNorm(8, 32, 3, norm=norm, relu=relu).double()
    x, residual = torch.randn(2, 8, 6, 6, dtype=torch.float64), torch.randn(2, 32, 6, 6, dtype=torch.float64)
    shift = torch.randn(32, dtype=torch.float64)
    found = layer(x, residual, shift)
    torch.testing.assert_close(found, layer(x, residual + shift[:, None, None]))


class Freed(TorchDispatchMode):
    """Finds out whether the gradient of a ReLU's result is freed when the backward of the convolution begins."""

    def __init__(self) -> None:
        super().__init__()
        self.incoming: StorageWeakRef | None = None
        self.is_freed: list[bool] = []

    def __torch_dispatch__(
        self, function: Callable[..., Any], _: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is torch.ops.aten.convolution_backward.default:
            self.is_freed.append(self.incoming.expired())
        result = function(*args, **(kwargs or {}))
        if function in (torch.ops.aten.threshold_backward.default, bias_activation_backward.torch_op):
            self.incoming = StorageWeakRef(args[0].untyped_storage())
        return result


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_gradient_of_the_result_is_freed_before_those_of_the_convolution_are_made(without_cudnn, bias, residual):
    inputs = inputs_of(3, 1, "cpu", torch.float64, residual=residual)
    inputs[2].requires_grad_(bias)
    y = fused.conv_relu(*inputs, 1, 1)
    total = (2 * y).sum()
    with Freed() as freed:
        total.backward()
    assert freed.is_freed == [True]


def test_only_a_gpu_fuses():
    x, weight, *_ = inputs_of(3, 1, "cpu", torch.float32, residual=False)
    assert not fused.fuses(x, weight)


@pytest.mark.gpu
@SHAPES
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cudnn_computes_what_single_operators_do(kernel, stride, residual, dtype):
    inputs = inputs_of(kernel, stride, "cuda", dtype, residual=residual)
    torch.full((1 << 24,), float("nan"), device="cuda")  # which results are then allocated in
    tolerance = 1e-4 if dtype == torch.float32 else 16 * torch.finfo(dtype).eps
    compare(inputs, stride, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gpu_sums_up_the_gradient_of_a_bias_as_exactly_as_its_type_is(dtype, layout):
    torch.manual_seed(0)
    x = torch.randn(2, 24, 60, 84, device="cuda", dtype=dtype).contiguous(memory_format=layout)
    tolerance = 1e-4 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
    # Sums of 10,080 numbers are some 100 in size, where they do not happen to be near 0.
    compare_bias(x, rtol=tolerance, atol=100 * tolerance)


@pytest.mark.gpu
def test_a_layer_fuses_where_bits_may_differ(monkeypatch):
    layer = ConvNorm(8, 16, 3, norm="frozen").cuda()
    calls = []
    monkeypatch.setattr(layers, "conv_relu", lambda *inputs: calls.append(1) or fused.conv_relu(*inputs))
    x = torch.randn(2, 8, 6, 6, device="cuda")
    wanted = layer(x)
    assert calls == [1]
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    torch.testing.assert_close(layer(x), wanted, rtol=1e-3, atol=1e-3)
    assert calls == [1]


@pytest.mark.gpu
def test_levels_that_share_a_weight_add_up_its_gradient_in_float32():
    layer = ConvNorm(8, 16, 3).cuda()
    big, small = torch.full((1, 8, 6, 6), 16.0, device="cuda"), torch.full((1, 8, 6, 6), 2.0**-6, device="cuda")
    torch.nn.init.constant_(layer.conv.weight, 1.0)
    with torch.autocast("cuda", torch.bfloat16):
        total = layer(big).float().sum() + layer(small).float().sum()
    total.backward()
    # At the kernel's centre each pixel counts once: 36 * 16 + 36 / 64 is no number of bfloat16.
    assert layer.conv.weight.grad[0, 0, 1, 1].item() == 36 * 16 + 36 / 64
