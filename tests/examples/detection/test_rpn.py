"""The RPN predicts the anchors of its losses alone as it predicts all of them, and so are their gradients."""

from __future__ import annotations

import pytest
import torch
from opsmith_detection.config import RPNConfig
from opsmith_detection.models.rpn import RPN
from torch import Tensor

SIZES = ((20, 28), (10, 14), (5, 7), (3, 4), (2, 2))


def predict_all(rpn: RPN, levels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits and the offsets of all anchors of all levels, with a gradient."""
    both = [rpn._predict(rpn.convs(level)) for level in levels]
    logits, deltas = (torch.cat([each.flatten(1, 3) for each in kind], 1) for kind in zip(*both, strict=True))
    return logits, deltas


def compare(device: str, dtype: torch.dtype, convs: int, chosen: Tensor, tolerance: float) -> None:
    torch.manual_seed(convs)
    rpn = RPN(16, RPNConfig(convs=convs)).to(device, dtype)
    for parameter in rpn.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    levels = [torch.randn(2, 16, *size, device=device, dtype=dtype) for size in SIZES]
    levels = [each.contiguous(memory_format=torch.channels_last).requires_grad_() for each in levels]
    some = rpn._predict_some(levels, chosen)
    logits, deltas = predict_all(rpn, levels)
    expected = logits.gather(1, chosen), deltas.gather(1, chosen[..., None].expand(-1, -1, 4))
    outer = [torch.randn_like(each) for each in expected]
    wanted = [*levels, *rpn.parameters()]
    found, right = (torch.autograd.grad(each, wanted, outer) for each in (some, expected))
    # Predictions are float32.
    torch.testing.assert_close(some, expected, rtol=tolerance, atol=tolerance)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def all_anchors() -> int:
    return 3 * sum(height * width for height, width in SIZES)


@pytest.mark.parametrize("convs", [1, 2, 3])
def test_some_anchors_are_predicted_as_among_all(convs: int) -> None:
    number = all_anchors()
    compare("cpu", torch.float64, convs, torch.stack([torch.randperm(number), torch.arange(number)]), 1e-5)
    # Some twice, as where there are not enough: their gradients add up.
    compare("cpu", torch.float64, convs, torch.randint(number, (2, 9)), 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("convs", [1, 2])
def test_some_anchors_are_predicted_as_among_all_on_a_gpu(convs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    compare("cuda", torch.float32, convs, torch.randint(all_anchors(), (2, 500), device="cuda"), 1e-4)


def test_nothing_is_kept_of_anchors_without_a_loss() -> None:
    rpn = RPN(16, RPNConfig(candidates=(50, 50), proposals=(20, 20), samples=8))
    levels = [torch.randn(1, 16, *size).requires_grad_() for size in SIZES]
    objects, sizes = torch.tensor([[[4.0, 4, 60, 60]]]), torch.tensor([[80.0, 112]])
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each) or each, lambda each: each):
        _, losses = rpn(levels, (80, 112), sizes, objects)
    assert all(loss.requires_grad for loss in losses.values())
    assert max(each.numel() for each in kept if each.is_floating_point()) < levels[0].numel()


def test_proposals_leave_no_weights_without_a_gradient_to_autocast() -> None:
    # In some releases of PyTorch autocast keeps copies of weights that were made where no gradient is recorded.
    torch.manual_seed(0)
    rpn = RPN(16, RPNConfig(convs=2, candidates=(50, 50), proposals=(20, 20), samples=8))
    levels = [torch.randn(1, 16, *size) for size in SIZES]
    objects, sizes = torch.tensor([[[4.0, 4, 60, 60]]]), torch.tensor([[80.0, 112]])
    with torch.autocast("cpu", torch.bfloat16):
        _, losses = rpn(levels, (80, 112), sizes, objects)
    sum(losses.values()).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in rpn.parameters())
