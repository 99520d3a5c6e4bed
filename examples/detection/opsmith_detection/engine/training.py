"""A training from the first step, or from a checkpoint, to the last one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Literal

import torch

from opsmith_detection.config import Config, ConfigError, as_yaml
from opsmith_detection.data.coco import Category, CocoDataset
from opsmith_detection.data.loader import Batches, load
from opsmith_detection.engine.checkpoint import list_checkpoints, load_checkpoint, restore, save_checkpoint, snapshot
from opsmith_detection.engine.distributed import World, gather, share_statistics, wrap
from opsmith_detection.engine.feed import Feed
from opsmith_detection.engine.inference import Predictor, evaluated
from opsmith_detection.engine.log import Log
from opsmith_detection.engine.optimizer import Average, build_optimizer
from opsmith_detection.engine.step import TrainStep
from opsmith_detection.evaluate import Evaluation
from opsmith_detection.models import build_model

__all__ = ["Training", "categories_of", "datasets", "evaluate", "load_dataset", "prepare"]


def prepare(config: Config) -> None:
    """Set PyTorch up for a run: precision of products, and whether every run gives the same bits.

    The process keeps these settings; another run sets them anew, but leaves deterministic algorithms on.
    """
    tf32 = config.solver.precision != "float32"
    torch.backends.cuda.matmul.fp32_precision = "tf32" if tf32 else "ieee"
    torch.backends.cudnn.conv.fp32_precision = "tf32" if tf32 else "ieee"  # type: ignore[attr-defined]
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = not config.deterministic
    torch.manual_seed(config.seed)


def categories_of(checkpoint: Mapping[str, Any]) -> dict[int, Category]:
    """Return what the labels of a checkpoint's model stand for."""
    return {label: Category(*category) for label, category in checkpoint["categories"].items()}


def load_dataset(
    config: Config, split: Literal["train", "test"], categories: Mapping[int, Category] | None = None
) -> CocoDataset:
    """Read a data set of a configuration, whose labels stand for these categories if they are given.

    Raises:
        DataError: a file is missing or contradicts itself, or its categories are others.
        ConfigError: labels do not fit the model's classes.
    """
    data = config.data
    path, images = (data.train, data.train_images) if split == "train" else (data.test, data.test_images)
    dataset = CocoDataset(path, images, labels=data.labels, categories=categories, exif=data.exif)
    if dataset.classes > config.model.classes:
        has_gaps = data.labels == "ids" and len(dataset.categories) < dataset.classes
        raise ConfigError(
            f"{path} has labels up to {dataset.classes}, the model {config.model.classes} classes: "
            f"set model.classes={dataset.classes}"
            + (f", or data.labels=contiguous and model.classes={len(dataset.categories)}" if has_gaps else "")
        )
    return dataset


def datasets(config: Config, categories: Mapping[int, Category] | None = None) -> dict[str, CocoDataset]:
    """`load_dataset` of both. Labels are the checkpoint's, if its categories are given, or the training's."""
    train = load_dataset(config, "train", categories)
    return {"train": train, "test": load_dataset(config, "test", train.categories)}


def evaluate(predictor: Predictor, batches: Batches, world: World) -> dict[str, float]:
    """Measure a model, which is in inference mode, on batches of tests. Each process takes its part; rank 0 returns."""
    evaluation = Evaluation(batches.dataset, with_masks=batches.with_masks)
    for batch in load(batches):
        evaluation.add(batch, predictor(batch))
    evaluation = evaluation.gathered()
    return evaluation.result() if world.leads else {}


def _check_trainable(config: Config, world: World) -> None:
    """Raise ConfigError for what a model can be, but not one that is trained here."""
    model, data, backbone = config.model, config.data, config.model.backbone
    if model.kind == "rcnn" and model.rpn is None:
        raise ConfigError(
            "model.rpn=null is a model that is called with proposals, which a data set does not have: leave out this entry"
        )
    is_normalised = backbone.norm != "frozen" or backbone.pyramid_norm
    is_shared = backbone.norm == "sync" and world.size > 1
    if is_normalised and not is_shared and data.batch == 1 and (32, 32) in data.canvases:
        raise ConfigError(
            "batch norm has a single pixel to normalise, at a 32nd of the resolution of one image of 32 x 32: "
            "set data.batch=2 or larger data.canvases"
        )


class Training:
    """A model being trained, with all that belongs to it.

    Raises:
        ConfigError: the folder has checkpoints, and `resume` is false; or a model of the configuration cannot be trained.
        DataError: a data set cannot be read, has no images, or lacks masks that the model needs.
        CheckpointError: the checkpoint is of another model or training.
    """

    def __init__(self, config: Config, world: World, *, resume: bool = False) -> None:
        _check_trainable(config, world)
        self.config, self.world = config, world
        checkpoints = list_checkpoints(config.output)
        if checkpoints and not resume:
            raise ConfigError(
                f"{config.output} has checkpoints of a run: --resume goes on with it, output=FOLDER starts another one"
            )
        prepare(config)
        checkpoint = load_checkpoint(checkpoints[-1]) if checkpoints else None
        self.data = datasets(config, categories_of(checkpoint) if checkpoint else None)
        self.batches = Batches(self.data["train"], config, world, training=True)
        self.tests = Batches(self.data["test"], config, world, training=False)
        self.model = build_model(config.model).to(world.device)
        stream = torch.cuda.Stream(world.device) if world.device.type == "cuda" else None
        with torch.cuda.stream(stream):  # where its gradients are accumulated
            wrapped = wrap(self.model, config, world)
        solver = config.solver
        self.optimizer = build_optimizer(self.model, solver)
        self.average = None if solver.ema is None else Average(self.model, solver.ema)
        self.images = config.data.batch * world.size * solver.accumulate
        self.step = TrainStep(
            wrapped, self.optimizer, config, average=self.average, images=self.images, rank=world.rank, stream=stream
        )
        self.predictor = Predictor(self.model, config, world.device, stream=stream, pool=self.step.pool)
        self.done = 0
        if world.size > 1 and config.distributed == "ddp":
            with torch.cuda.stream(stream):
                self.step.settle(next(Feed(load(self.batches), world.device)))
            self.batches.next = 0
        if checkpoint:
            self._go_on(checkpoint)
        self.feed = Feed(load(self.batches), world.device)
        self.result: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        """Train to the last step and return the last evaluation.

        Raises:
            ConfigError: the folder of the run cannot be written to, or another run does so.
            DivergedError: a loss is not finite. Checkpoints from before that are kept.
        """
        solver, output, leads = self.config.solver, self.config.output, self.world.leads
        with Log(output, start=self.done, steps=solver.steps, leads=leads) as log:
            if leads:
                (output / "config.yaml").write_text(as_yaml(self.config), encoding="utf-8")
            if self.done:
                log.say(f"{output}: goes on after step {self.done} of {solver.steps}")
                is_measured = gather(log.has(self.done, "box/AP"))[0]
                if self.done >= solver.steps or (self._is_due(solver.evaluate_every) and not is_measured):
                    self._evaluate(log)
            began, at = time.perf_counter(), self.done
            self.model.train()
            while self.done < solver.steps:
                self.step(self.feed, self.done)
                self.done += 1
                saves, evaluates = self._is_due(solver.checkpoint_every), self._is_due(solver.evaluate_every)
                if not (saves or evaluates or self._is_due(solver.log_every)):
                    continue
                # Before a checkpoint, which must not have weights that are not finite.
                losses = self.step.read_losses()
                self._log(log, losses, (self.done - at) * self.images / (time.perf_counter() - began))
                if saves or evaluates:
                    # Once: the mean of equal numbers is not always that number, so another time could move them.
                    share_statistics(self.model, self.average)
                if saves:
                    self._save()
                if evaluates:
                    self._evaluate(log)
                began, at = time.perf_counter(), self.done
        return self.result

    def _is_due(self, every: int) -> bool:
        return self.done % every == 0 or self.done >= self.config.solver.steps

    def _log(self, log: Log, losses: Mapping[str, float], speed: float) -> None:
        everyone = gather(losses)
        means = {name: sum(one[name] for one in everyone) / len(everyone) for name in losses}
        norm = means.pop("gradient_norm")
        total, parts = sum(means.values()), " ".join(f"{name} {value:.3f}" for name, value in means.items())
        rate = float(self.optimizer.param_groups[0]["lr"])
        values = {"loss": total, **means, "gradient_norm": norm, "rate": rate, "images_per_second": speed}
        log.write(self.done, values, f"{speed:.1f} images/s  loss {total:.3f} ({parts})")

    def _evaluate(self, log: Log) -> None:
        with evaluated(self.model, self.average):
            self.result = evaluate(self.predictor, self.tests, self.world)
        if self.result:
            said = "  ".join(f"{name} {self.result[name]:.3f}" for name in sorted(self.result) if "/AP" in name[:7])
            log.say(f"step {self.done}: {said}")
            if not log.has(self.done, "box/AP"):
                log.write(self.done, self.result)

    def _save(self) -> None:
        content: dict[str, Any] = snapshot(self.model, self.optimizer, self.average)
        categories = {label: tuple(category) for label, category in self.data["train"].categories.items()}
        content.update(config=as_yaml(self.config), loader=self.batches.state(), categories=categories)
        if self.world.leads:
            save_checkpoint(self.config.output, self.done, content, self.config.solver.checkpoints)

    def _go_on(self, checkpoint: Mapping[str, Any]) -> None:
        restore(checkpoint, self.model, self.optimizer, self.average)
        self.done = checkpoint["step"]
        state, now = checkpoint["loader"], self.batches.state()
        if state["of_a_step"] != now["of_a_step"]:  # other ranks, or another batch: on from about the same image
            position = state["position"] * state["of_a_step"] // now["of_a_step"]
            state = {**state, "of_a_step": now["of_a_step"], "position": min(position, len(self.batches) - 1)}
        self.batches.restore(state)
