"""Learning rates by step, and which parameters decay."""

from __future__ import annotations

import pytest
import torch
from detection_kit.tiny import StandIn, small_config
from opsmith_detection.engine.optimizer import build_optimizer, rate_at, set_rate


def test_the_rate_grows_with_the_images_and_in_the_warm_up():
    solver = small_config(rate=0.02, steps=90, warm_up_steps=10).solver
    assert rate_at(0, solver, 16) == pytest.approx(0.02 * 1e-3)
    assert rate_at(5, solver, 16) == pytest.approx(0.02 * 0.5005)
    assert rate_at(10, solver, 16) == pytest.approx(0.02)
    assert rate_at(10, solver, 64) == pytest.approx(0.08)


def test_the_rate_drops_at_milestones():
    solver = small_config(rate=0.02, steps=90, milestones=[0.5, 0.9]).solver
    assert [rate_at(step, solver, 16) for step in (44, 45, 80, 81)] == pytest.approx([0.02, 2e-3, 2e-3, 2e-4])


def test_the_rate_follows_half_a_cosine_after_the_warm_up():
    solver = small_config(rate=0.02, steps=110, warm_up_steps=10, schedule="cosine").solver
    assert [rate_at(step, solver, 16) for step in (10, 60, 110)] == pytest.approx([0.02, 0.01, 0.0])


def test_normalisations_have_a_decay_of_their_own_if_asked():
    model = StandIn()
    model.last.bias.requires_grad_(False)
    (everything,) = build_optimizer(model, small_config(weight_decay=0.1).solver).param_groups
    assert everything["weight_decay"] == 0.1
    assert [id(p) for p in everything["params"]] == [id(p) for p in model.parameters() if p.requires_grad]

    others, norms = build_optimizer(model, small_config(weight_decay=0.1, norm_weight_decay=0.0).solver).param_groups
    assert (others["weight_decay"], norms["weight_decay"]) == (0.1, 0.0)
    assert {id(p) for p in norms["params"]} == {id(model.norm.weight), id(model.norm.bias)}
    assert len(others["params"]) == 3


def test_the_rate_is_written_into_a_tensor_that_a_graph_can_read():
    optimizer = build_optimizer(StandIn(), small_config().solver)
    rate = optimizer.param_groups[0]["lr"]
    set_rate(optimizer, 0.25)
    assert isinstance(rate, torch.Tensor) and optimizer.param_groups[0]["lr"] is rate and rate == 0.25
