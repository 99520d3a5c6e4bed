"""A training step: what it computes, counts and refuses."""

from __future__ import annotations

import copy
import math
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from detection_kit.tiny import Counted, StandIn, batch_of, small_config
from detection_kit.waiting import refusing_to_wait
from opsmith_detection.engine.feed import Feed
from opsmith_detection.engine.graphs import EAGER, release_graphs, shapes_of
from opsmith_detection.engine.optimizer import Average, build_optimizer
from opsmith_detection.engine.step import DivergedError, TrainStep
from torch import nn


def step_of(model: nn.Module, **solver: object) -> TrainStep:
    config = small_config(**solver)
    average = Average(model, config.solver.ema) if config.solver.ema else None
    return TrainStep(model, build_optimizer(model, config.solver), config, average=average)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_steps_are_those_of_a_plain_loop(optimizer: str):
    model = StandIn()
    expected = copy.deepcopy(model)
    step = step_of(model, optimizer=optimizer, weight_decay=0.01, schedule="cosine")
    for number in range(3):
        step(iter([batch_of(4, number)]), number)

    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    plain = kind(
        expected.parameters(), lr=0.1, weight_decay=0.01, **({} if optimizer == "adamw" else {"momentum": 0.9})
    )
    for number in range(3):
        plain.param_groups[0]["lr"] = 0.1 * 0.5 * (1 + math.cos(math.pi * number / 10))
        step._seed(number, 0)
        batch = batch_of(4, number)
        plain.zero_grad()
        sum(expected(batch.images, batch.sizes).values()).backward()
        plain.step()
    torch.testing.assert_close(model.state_dict(), expected.state_dict())


def test_accumulated_batches_are_one_larger_batch():
    class Quiet(StandIn):
        def forward(self, *inputs):
            return {"loss": super().forward(*inputs)["loss_a"]}

    halves, whole = Quiet(), Quiet()
    images = batch_of(8)
    parts = [images._replace(images=images.images[part]) for part in (slice(0, 4), slice(4, 8))]
    by_halves, at_once = step_of(halves, accumulate=2), step_of(whole)
    for number in range(2):
        by_halves(iter(parts), number)
        at_once(iter([images]), number)
    torch.testing.assert_close(list(halves.parameters()), list(whole.parameters()))
    assert by_halves.read_losses() == pytest.approx(at_once.read_losses())


def test_losses_are_means_since_the_last_reading():
    model = StandIn()
    step = step_of(model, rate=0.0)
    step(iter([batch_of(4)]), 0)
    first = step.read_losses()
    assert list(first) == ["loss_a", "loss_b", "gradient_norm"]
    for number in (1, 2):
        step(iter([batch_of(4)]), number)
    second = step.read_losses()
    assert second["loss_a"] == pytest.approx(first["loss_a"])
    assert second["loss_b"] != first["loss_b"]  # other random numbers


def test_gradients_are_clipped_to_a_norm():
    plain, clipped = StandIn(), StandIn()
    one, other = step_of(plain, momentum=0), step_of(clipped, momentum=0, clip_norm=1e-3)
    before = [p.detach().clone() for p in plain.parameters()]
    for step in (one, other):
        step(iter([batch_of(4)]), 0)
    norm = one.read_losses()["gradient_norm"]
    assert other.read_losses()["gradient_norm"] == pytest.approx(norm)
    # Weights decay by 1e-4 of theirs besides, hence the tolerance.
    for b, p, c in zip(before, plain.parameters(), clipped.parameters(), strict=True):
        torch.testing.assert_close(c - b, (p - b) * 1e-3 / norm, rtol=0, atol=2e-5)


def test_a_loss_that_is_not_finite_is_named_with_its_first_step():
    step = step_of(StandIn())
    good = batch_of(4)
    step(iter([good]), 0)
    step.read_losses()
    step(iter([good]), 1)
    with torch.no_grad():
        step.model.last.bias[1] = math.inf
    step(iter([good]), 2)
    step(iter([good]), 3)
    with pytest.raises(DivergedError, match=r"step 3: loss_b, gradient_norm is not finite"):
        step.read_losses()


def test_random_numbers_follow_from_seed_step_and_rank():
    def drawn(step: int, rank: int) -> float:
        config = small_config(rate=0.0)
        model = StandIn()
        one = TrainStep(model, build_optimizer(model, config.solver), config, rank=rank)
        torch.rand(7)  # what came before does not count
        one(iter([batch_of(4)]), step)
        return one.read_losses()["loss_b"]

    assert drawn(3, 0) == drawn(3, 0)
    assert len({drawn(3, 0), drawn(4, 0), drawn(3, 1)}) == 3


def test_the_average_follows_the_weights():
    model = StandIn()
    start = model.first.weight.detach().clone()
    step = step_of(model, ema=0.9)
    step(iter([batch_of(4)]), 0)
    assert step.average is not None
    # In step 0 nine tenths of the way: 1 - 1/10.
    torch.testing.assert_close(
        step.average.tensors["first.weight"], start + 0.9 * (model.first.weight.detach() - start)
    )
    own = copy.deepcopy(model.state_dict())
    with step.average.applied():
        torch.testing.assert_close(dict(model.named_parameters()), step.average.tensors)
        assert not torch.equal(model.first.weight, own["first.weight"])
    torch.testing.assert_close(model.state_dict(), own, rtol=0, atol=0)


def test_running_statistics_are_averaged_with_the_weights():
    class Normed(StandIn):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

    model = Normed()
    step = step_of(model, ema=0.9)
    expected = model.norm.running_var.clone()
    for number in range(3):
        step(iter([batch_of(4, number)]), number)
        expected += (1 - (1 + number) / (10 + number)) * (model.norm.running_var - expected)
    own = copy.deepcopy(model.state_dict())
    assert step.average is not None
    with step.average.applied():
        torch.testing.assert_close(model.norm.running_var, expected)
        assert not torch.allclose(expected, own["norm.running_var"])
        assert model.norm.num_batches_tracked == 3
    torch.testing.assert_close(model.state_dict(), own, rtol=0, atol=0)


def test_a_feed_gives_every_batch_and_the_state_behind_it():
    source = Counted()
    source.restore({"next": 5})
    feed = Feed(source, torch.device("cpu"))
    assert source.state() == {"next": 5}
    for number in (5, 6, 7):
        torch.testing.assert_close(next(feed).images, batch_of(4, number).images)
        assert source.state() == {"next": number + 1}


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_graphs_are_captured_after_eleven_eager_steps_of_all_shapes(accumulate: int, monkeypatch: pytest.MonkeyPatch):
    """What DistributedDataParallel does in its first iterations must not be in a graph of any shape."""

    class Synchronised(StandIn):
        def no_sync(self):
            return nullcontext()

    monkeypatch.setattr("opsmith_detection.engine.step.DistributedDataParallel", Synchronised)
    step = step_of(Synchronised(), accumulate=accumulate)
    of_key: Counter[object] = Counter()
    captured: dict[object, tuple[int, int]] = {}
    steps = 0

    is_eager = step._run._is_eager

    def decide(function, batch, name=None, synchronises=True):
        key = (name, shapes_of(batch))
        if not is_eager(key, synchronises):
            captured.setdefault(key, (steps, of_key[key]))
        of_key[key] += 1

    monkeypatch.setattr(step, "_run", decide)
    for number, images in enumerate([2, 3, 3, 3, *[2] * 9, 3, 2, 4, 4, 4]):
        step(iter([batch_of(images)] * accumulate), number)
        steps += 1
    assert len(captured) == 3 * min(accumulate, 3)
    assert all(before >= 11 and own >= EAGER for before, own in captured.values()), captured


gpu = pytest.mark.gpu


@gpu
def test_a_graph_makes_the_steps_that_eager_code_makes():
    device = torch.device("cuda", 0)
    models, losses = [], []
    for graph in (False, True):
        model = StandIn().to(device)
        config = replace(small_config(ema=0.9, clip_norm=0.5, accumulate=2), graph=graph)
        average = Average(model, 0.9)
        step = TrainStep(model, build_optimizer(model, config.solver), config, average=average)
        feed = Feed(Counted(), device)
        for number in range(8):
            step(feed, number)
        models.append({**model.state_dict(), **{f"average {k}": v for k, v in average.tensors.items()}})
        losses.append(step.read_losses())
    torch.testing.assert_close(models[1], models[0], rtol=0, atol=0)
    assert losses[0] == losses[1]


@gpu
def test_a_graph_that_was_released_is_captured_anew():
    device = torch.device("cuda", 0)
    model = StandIn().to(device)
    config = small_config()
    step = TrainStep(model, build_optimizer(model, config.solver), config)
    feed = Feed(Counted(), device)
    for number in range(4):
        step(feed, number)
    release_graphs()
    seen = float(model.seen)
    step(feed, 4)
    assert float(model.seen) == seen + 1


@gpu
def test_a_step_does_not_wait_for_the_gpu():
    device = torch.device("cuda", 0)
    model = StandIn().to(device)
    config = small_config(ema=0.9, clip_norm=0.5)
    step = TrainStep(model, build_optimizer(model, config.solver), config, average=Average(model, 0.9))
    pinned = Counted()
    feed = Feed(pinned, device)
    for number in range(4):
        step(feed, number)
    with refusing_to_wait():
        for number in range(4, 8):
            step(feed, number)
    assert math.isfinite(step.read_losses()["loss_a"])
