"""Batch norm that leaves samples out, and that two processes share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from opsmith_detection.models.norms import BatchNorm, FrozenNorm
from torch import nn

CLOSE = {"rtol": 1e-4, "atol": 1e-4}

SHARED = """
import sys
import torch
from torch import distributed
from opsmith_detection.models.norms import BatchNorm
rank, folder = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
norm = BatchNorm(3, sync=True)
x, grad = (each[rank].requires_grad_() for each in torch.load(f"{folder}/given.pt"))
y = norm(x, torch.tensor([True, rank == 1]))
y.backward(grad.detach())
torch.save([y.detach(), x.grad, norm.weight.grad, norm.running_mean, norm.running_var], f"{folder}/{rank}.pt")
distributed.destroy_process_group()
"""


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


@pytest.mark.slow("starts two processes")
def test_two_processes_normalise_as_one(tmp_path):
    random = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(2, 2, 3, 4, 6, generator=random) + 2 for _ in range(2))
    grad[0, 1] = 0
    torch.save([x, grad], tmp_path / "given.pt")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", SHARED, str(rank), str(tmp_path)], env=environment) for rank in (0, 1)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    one, other = (torch.load(Path(tmp_path) / f"{rank}.pt") for rank in (0, 1))
    y, by_x, by_weight, mean, variance = reference(torch.cat([x[0, :1], x[1]]), torch.cat([grad[0, :1], grad[1]]))
    torch.testing.assert_close(torch.cat([one[0][:1], other[0]]), y, **CLOSE)
    torch.testing.assert_close(torch.cat([one[1][:1], other[1]]), by_x, **CLOSE)
    torch.testing.assert_close(one[2] + other[2], by_weight, **CLOSE)
    for each in (one, other):
        torch.testing.assert_close(each[3:], [mean, variance], **CLOSE)


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
