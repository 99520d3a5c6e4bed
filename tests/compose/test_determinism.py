"""Equal calls give equal bits, also where PyTorch fills fresh memory to find those who read it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from compose_kit.table import Case, each_case
from torch import Tensor

from opsmith.ops.lltm import LLTM

pytestmark = pytest.mark.compile


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


def values_and_gradients(case: Case, batch: int) -> list[Tensor]:
    arguments = case.make(batch, dtype=torch.float32)
    total = case.total(*arguments)
    gradients = torch.autograd.grad(total, arguments, allow_unused=True, materialize_grads=True)
    return [total.detach(), *case.found(*case.make(batch, dtype=torch.float32, requires_grad=False)), *gradients]


@each_case
def test_runs_are_equal_bit_for_bit(case: Case, deterministic: None):
    first = values_and_gradients(case, 67)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, values_and_gradients(case, 67), strict=True))


@each_case
def test_the_setting_changes_no_bit(case: Case):
    plain = values_and_gradients(case, 5)
    torch.use_deterministic_algorithms(True)
    try:
        filled = values_and_gradients(case, 5)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(plain, filled, strict=True))
    assert all(torch.isfinite(tensor).all() for tensor in filled)


@each_case
def test_threads_change_no_bit(case: Case):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = values_and_gradients(case, 300)
        torch.set_num_threads(4)
        together = values_and_gradients(case, 300)
    finally:
        torch.set_num_threads(threads)
    # What is around the operator sums in parallel; its own results must be equal.
    count = len(case.found(*case.make()))
    assert all(torch.equal(a, b) for a, b in zip(alone[1 : 1 + count], together[1 : 1 + count], strict=True))


def test_training_twice_gives_equal_parameters(deterministic: None):
    def train(model: LLTM) -> list[Tensor]:
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(3)
        for _ in range(5):
            optimiser.zero_grad()
            model(torch.randn(4, 8, 2, generator=generator))[0].square().mean().backward()
            optimiser.step()
        return list(model.parameters())

    model = LLTM(2, 4)
    twin = copy.deepcopy(model)
    assert all(torch.equal(a, b) for a, b in zip(train(model), train(twin), strict=True))
