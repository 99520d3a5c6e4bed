"""No step of a training asks a tensor for a number or for a size that depends on data: that would wait for the GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from detection_kit.tiny import SMALL, objects, small_config
from detection_kit.waiting import Refusing, refusing_to_wait
from opsmith_detection.config import Config, load_config
from opsmith_detection.engine.optimizer import Average, build_optimizer
from opsmith_detection.engine.step import TrainStep
from opsmith_detection.models import build_model

pytestmark = pytest.mark.compile

os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # what deterministic algorithms ask for before cuBLAS is used

KINDS = {
    "mask": [*SMALL, "model.backbone.norm=batch"],
    "mask v2": [*SMALL, "model.backbone.norm=batch", "model.box_head.convs=1", "model.mask_head.norm=true"],
    "recompute": [*SMALL, "model.recompute=true"],
    "deformable": [*SMALL, "model.backbone.deformable_stages=[5]"],
    "boxes": ["model.mask_head=null", *SMALL[:6], *SMALL[7:]],
    "retinanet": [*SMALL[:5], "model.kind=retinanet", "model.retinanet.box_loss=giou"],
}


def config_of(kind: str, rate: float) -> Config:
    solver = small_config(ema=0.9, clip_norm=1.0, optimizer="adamw", rate=rate).solver
    return replace(load_config(None, KINDS[kind]), solver=solver)


def made(
    kind: str, device: str = "cpu", rate: float = 0.1, *, graph: bool = True
) -> tuple[TrainStep, Callable[[int], None]]:
    config = replace(config_of(kind, rate), graph=graph)
    torch.manual_seed(0)
    model = build_model(config.model).to(device)
    average = Average(model, 0.9)
    step = TrainStep(model, build_optimizer(model, config.solver), config, average=average)
    batch = objects(device)
    return step, lambda number: step(iter([batch]), number)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_step_and_a_detection_wait_for_nothing(kind: str):
    step, take = made(kind)
    take(0)  # what is made once may
    with Refusing():
        take(1)
    assert all(value >= 0 for value in step.read_losses().values())
    batch = objects()
    model = step.model.eval()
    with torch.no_grad():
        model(batch.images, batch.sizes)
        with Refusing():
            model(batch.images, batch.sizes)


def test_the_test_finds_what_waits():
    for waits in (
        lambda t: t.sum().item(), lambda t: t[t > 0], lambda t: t.nonzero(), lambda t: t.unique(),
        lambda t: t.index_put((t > 0,), t), lambda t: t.repeat_interleave(t.long()),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="waits for the GPU"), Refusing():
            waits(torch.ones(3))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_graph_makes_the_steps_of_eager_code_without_waiting(kind: str):
    found = []
    torch.use_deterministic_algorithms(True)
    try:
        for graph in (False, True):
            step, take = made(kind, "cuda:0", graph=graph)
            for number in range(4):
                take(number)
            with refusing_to_wait():
                for number in range(4, 8):
                    take(number)
            found.append(({**step.model.state_dict()}, step.read_losses()))
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=0)
    assert found[0][1] == found[1][1]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_graph_makes_nearly_the_steps_of_eager_code_with_fused_convolutions(kind: str):
    """Without deterministic algorithms, as trainings are by default: convolutions are fused with what is behind them."""
    losses = []
    for graph in (False, True):
        step, take = made(kind, "cuda:0", rate=1e-4, graph=graph)
        for number in range(4):
            take(number)
        step.read_losses()
        with refusing_to_wait():
            for number in range(4, 8):
                take(number)
        losses.append(step.read_losses())
    # Where sums are rounded otherwise, other proposals may be drawn.
    assert losses[1] == pytest.approx(losses[0], rel=0.2, abs=0.05)
