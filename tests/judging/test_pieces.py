"""What is compared in pieces is what is compared at once."""

from __future__ import annotations

import math

import pytest
import torch

from opsmith.judging.pieces import mean_of, relative_distance, within


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.pieces._ELEMENTS", 10)


def test_means_and_distances_are_those_of_the_whole() -> None:
    x = torch.randn(7, 9)
    y = x + 0.01 * torch.randn(7, 9)
    assert mean_of(x) == pytest.approx(float(x.double().mean()))
    assert relative_distance(y, x) == pytest.approx(float((y - x).double().norm() / x.double().norm()), rel=1e-5)
    assert relative_distance(torch.zeros(0), torch.zeros(0)) == 0.0
    assert relative_distance(torch.ones(3), torch.zeros(3)) == math.inf
    assert relative_distance(torch.tensor([1.0, math.nan]), torch.ones(2)) == math.inf
    assert relative_distance(x.t(), x.t()) == 0.0


@pytest.mark.parametrize("place", [0, 31, 62])
def test_one_element_that_is_off_is_found(place: int) -> None:
    x = torch.ones(7, 9)
    assert within(x, x.clone(), 1e-2)
    assert within(x, 1.0, 1e-2)
    x.view(-1)[place] = 1.5
    assert not within(x, torch.ones(7, 9), 1e-2)
    assert not within(x, 1.0, 1e-2)
    x.view(-1)[place] = math.nan
    assert not within(x, torch.ones(7, 9), 1e-2)
    assert within(x, x.clone(), 1e-2)
