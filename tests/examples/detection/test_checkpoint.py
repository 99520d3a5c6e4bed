"""Checkpoints: whole or not there, of this model, and the same bits afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from detection_kit.tiny import StandIn, batch_of, small_config
from opsmith_detection.engine.checkpoint import (
    CheckpointError,
    list_checkpoints,
    load_checkpoint,
    load_weights,
    restore,
    save_checkpoint,
    snapshot,
)
from opsmith_detection.engine.optimizer import Average, build_optimizer
from opsmith_detection.engine.step import TrainStep
from opsmith_detection.models.weights import WeightsError


def parts(optimizer: str) -> tuple[StandIn, torch.optim.Optimizer, Average, TrainStep]:
    config = small_config(optimizer=optimizer, ema=0.9)
    model = StandIn()
    built, average = build_optimizer(model, config.solver), Average(model, 0.9)
    return model, built, average, TrainStep(model, built, config, average=average)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_run_goes_on_to_the_bit(optimizer: str, tmp_path: Path):
    model, built, average, step = parts(optimizer)
    for number in range(3):
        step(iter([batch_of(4, number)]), number)
    save_checkpoint(tmp_path, 3, snapshot(model, built, average), keep=2)
    for number in range(3, 6):
        step(iter([batch_of(4, number)]), number)

    again, other, other_average, other_step = parts(optimizer)
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint["step"] == 3
    restore(checkpoint, again, other, other_average)
    for number in range(3, 6):
        other_step(iter([batch_of(4, number)]), number)
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(other_average.tensors, average.tensors, rtol=0, atol=0)


def test_the_last_ones_are_kept(tmp_path: Path):
    (tmp_path / ".checkpoint.pt").write_bytes(b"of a process that was killed as it wrote")
    for step in (5, 10, 15, 20):
        save_checkpoint(tmp_path, step, {}, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == [path.name for path in tmp_path.glob("checkpoint-*.pt")]
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-00000015.pt", "checkpoint-00000020.pt"]
    assert load_checkpoint(tmp_path)["step"] == 20


def test_a_process_that_dies_as_it_writes_leaves_the_former_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_checkpoint(tmp_path, 1, {}, keep=1)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, 2, {}, keep=1)
    assert load_checkpoint(tmp_path)["step"] == 1


def test_averaged_weights_are_used_if_there_are_some():
    model, built, average, step = parts("sgd")
    for number in range(2):
        step(iter([batch_of(4)]), number)
    other = StandIn()
    load_weights(snapshot(model, built, average), other)
    torch.testing.assert_close(dict(other.named_parameters()), average.tensors)
    assert other.seen == 2
    load_weights(snapshot(model, built, None), other)
    torch.testing.assert_close(other.state_dict(), model.state_dict())


def test_what_is_not_a_checkpoint_is_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match="has no checkpoint: train first"):
        load_checkpoint(tmp_path)
    with pytest.raises(WeightsError, match=r"a\.pt cannot be read: No such file"):
        load_checkpoint(tmp_path / "a.pt")
    damaged = tmp_path / "b.pt"
    for content in (b"", b"text", b"PK\3\4"):
        damaged.write_bytes(content)
        with pytest.raises(WeightsError, match=r"b\.pt does not have what `torch\.save` writes: \w"):
            load_checkpoint(damaged)
    torch.save({"weights": torch.ones(2)}, damaged)
    with pytest.raises(CheckpointError, match="not a checkpoint of this program"):
        load_checkpoint(damaged)


def test_a_checkpoint_of_another_model_is_refused():
    model, built, average, _ = parts("sgd")
    saved = snapshot(model, built, average)
    del saved["model"]["first.weight"]
    with pytest.raises(CheckpointError, match=r"first\.weight is missing in it, \[8, 3\] here"):
        restore(saved, model, built, average)
    saved = snapshot(model, built, average)
    saved["model"]["last.bias"] = torch.zeros(3)
    with pytest.raises(CheckpointError, match=r"last\.bias is \[3\] in it, \[2\] here"):
        restore(saved, model, built, average)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_checkpoint_of_other_trained_parameters_is_refused(optimizer: str):
    for before, after, said in ((False, True, "not trained here"), (True, False, "trained here")):
        model, other = StandIn(), StandIn()
        model.first.requires_grad_(not before)
        other.first.requires_grad_(not after)
        config = small_config(optimizer=optimizer)
        built, other_built = (build_optimizer(each, config.solver) for each in (model, other))
        TrainStep(model, built, config)(iter([batch_of(4)]), 0)
        with pytest.raises(CheckpointError, match=rf"first\.bias is {said}.*model\.backbone\.trainable_stages"):
            restore(snapshot(model, built, None), other, other_built, None)


def test_a_checkpoint_of_another_optimizer_is_refused():
    for before, after in (("sgd", "adamw"), ("adamw", "sgd")):
        model, built, average, step = parts(before)
        step(iter([batch_of(4)]), 0)
        other, other_built, other_average, _ = parts(after)
        with pytest.raises(
            CheckpointError, match=rf"is of a training with {before}: resume with this solver\.optimizer"
        ):
            restore(snapshot(model, built, average), other, other_built, other_average)
