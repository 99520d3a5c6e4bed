"""Batch norm that leaves samples out; detection_kit/ranks.py has two processes share it."""

from __future__ import annotations

import torch
from opsmith_detection.models.norms import BatchNorm, FrozenNorm
from torch import nn

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x, grad):
    """PyTorch's batch norm of the samples that count, and its gradients."""
    norm, x = nn.BatchNorm2d(3), x.clone().requires_grad_()
    y = norm(x)
    y.backward(grad)
    return y.detach(), x.grad, norm.weight.grad, norm.running_mean, norm.running_var


def test_samples_that_do_not_count_change_nothing():
    random = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(5, 3, 4, 6, generator=random) + 2 for _ in range(2))
    valid = torch.tensor([True, False, True, True, False])
    grad[~valid] = 0
    wanted = reference(x[valid], grad[valid])
    norm, x = BatchNorm(3), x.requires_grad_()
    y = norm(x, valid)
    y.backward(grad)
    found = (y.detach()[valid], x.grad[valid], norm.weight.grad, norm.running_mean, norm.running_var)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_statistics_of_half_types_are_of_single_precision():
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    norm, wanted = BatchNorm(3), nn.BatchNorm2d(3)
    wanted(x.float())
    with torch.autocast("cpu", torch.bfloat16):
        norm(x, torch.ones(4, dtype=torch.bool))
    torch.testing.assert_close(norm.running_mean, wanted.running_mean)
    torch.testing.assert_close(norm.running_var, wanted.running_var)


def test_gradients_of_half_types_are_near_those_of_single_precision():
    random = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(6, 3, 8, 8, generator=random).bfloat16() + 1 for _ in range(2))
    valid = torch.tensor([True, True, False, True, False, True])
    grad[~valid] = 0
    wanted = reference(x[valid].float(), grad[valid].float())
    norm, x = BatchNorm(3), x.requires_grad_()
    y = norm(x, valid)
    y.backward(grad)
    assert y.dtype == x.grad.dtype == torch.bfloat16
    assert not x.grad[~valid].any()
    found = (y.detach()[valid], x.grad[valid], norm.weight.grad, norm.running_mean, norm.running_var)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=2e-2, atol=2e-2)


def test_no_samples_leave_the_statistics():
    norm = BatchNorm(3)
    y = norm(torch.randn(2, 3, 4, 4), torch.zeros(2, dtype=torch.bool))
    assert y.isfinite().all()
    assert norm.running_mean.equal(torch.zeros(3)) and norm.running_var.equal(torch.ones(3))


def test_frozen_statistics_become_scale_and_shift():
    norm = nn.BatchNorm2d(4).eval()
    random = torch.Generator().manual_seed(0)
    for value in (*norm.parameters(), norm.running_mean, norm.running_var):
        value.data.copy_(0.5 + torch.rand(4, generator=random))
    frozen = FrozenNorm(4)
    frozen.load_state_dict(norm.state_dict())
    x = torch.randn(2, 4, 3, 3, generator=random)
    scale, shift = (each[:, None, None] for each in frozen.scale_and_shift())
    torch.testing.assert_close(x * scale + shift, norm(x).detach())
    again = FrozenNorm(4)
    again.load_state_dict(frozen.state_dict())
    assert again.scale.equal(frozen.scale)
