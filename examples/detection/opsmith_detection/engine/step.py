"""A training step: on a GPU a CUDA graph for each shape of a batch, elsewhere the same code eagerly."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from opsmith_detection.config import Config
from opsmith_detection.engine.graphs import Graphs
from opsmith_detection.engine.optimizer import Average, rate_at, set_rate
from opsmith_detection.errors import DetectionError
from opsmith_detection.structures import Batch

__all__ = ["DivergedError", "TrainStep", "autocast"]

# Eager backwards with communication of DistributedDataParallel, which rebuilds its buckets and measures itself, with
# events that it waits for, in the first ones of a process (PyTorch's notes on CUDA graphs ask for 11).
_EAGER_DISTRIBUTED = 11

_Part = Callable[[str], contextlib.AbstractContextManager[object]]


class DivergedError(DetectionError, RuntimeError):
    """A loss that is not finite."""


class TrainStep:
    """Forward, losses, backward, clipping, optimizer and averaged weights, without a synchronisation with the host.

    What changes from step to step lives in tensors that a graph reads: the batch, the learning rate, the weight of the
    average. Losses are added up on the device until `read_losses`.

    The first steps, and the first ones of each shape, are eager, and so are all on a CPU or without `config.graph`. With
    `accumulate` batches a step there is a graph for a first, a middle and a last batch.

    Random numbers of a step depend on the seed, the step and the rank alone. A run that goes on thus draws what it would
    have drawn, without states of generators in its checkpoints.

    Args:
        model: called with images, sizes and targets of a `Batch`; returns a dictionary of scalar losses.
        optimizer: of the model's parameters, from `build_optimizer`.
        average: moves along with the weights.
        images: of a step, on all devices together; the rate depends on it.
        rank: of this process.
        stream: that a GPU works on; one of its own if it is left out.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: Config,
        *,
        average: Average | None = None,
        images: int = 16,
        rank: int = 0,
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        self.model, self.optimizer, self.average = model, optimizer, average
        self.config, self.solver, self.images, self.rank = config, config.solver, images, rank
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        self.names: list[str] = []
        self._totals = torch.zeros(0)  # of each loss since the last reading, and the gradients' norm
        self._failed_at = torch.zeros(0)  # of each, the first step where it was not finite
        self._number = torch.zeros((), dtype=torch.int64, device=self.device)
        self._counted = 0
        self.stream = torch.cuda.Stream(self.device) if stream is None and self.device.type == "cuda" else stream
        # Others are made anew in each backward, in memory that activations have had before.
        self._keeps_gradients = self.solver.accumulate > 1 or isinstance(model, DistributedDataParallel)
        first = _EAGER_DISTRIBUTED if isinstance(model, DistributedDataParallel) else 0
        self._run: Graphs[None] = Graphs(self.stream, graph=config.graph, first=first)
        self.pool = self._run.pool

    def __call__(self, batches: Iterator[Batch], step: int) -> None:
        """Train on the next `accumulate` batches, which are on the model's device; `step` counts from 0."""
        set_rate(self.optimizer, rate_at(step, self.solver, self.images))
        self._number.fill_(step)
        if self.average is not None:
            self.average.set_step(step)
        for index in range(self.solver.accumulate):
            batch = next(batches)
            self._seed(step, index)  # behind the loader, which may draw numbers too
            first, last = index == 0, index == self.solver.accumulate - 1
            # Everything runs on one stream: gradients are accumulated on the one where their leaves were first used.
            self._run(partial(self.compute, first=first, last=last), batch, (first, last), synchronises=last)
        self._counted += 1

    def settle(self, batch: Batch) -> None:
        """Let DistributedDataParallel order its buckets by the gradients of a batch; the model stays as it is.

        It does so in the first two backwards of a process, and the order rounds the sums of gradients: only if it is final
        from the first step on has a run that goes on the bits of one that was not interrupted. The batch is of `stream`.
        """
        if not isinstance(self.model, DistributedDataParallel):
            return
        before = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._differentiate(batch)
            self.model.load_state_dict(before)
        if self.stream is not None:
            self.stream.synchronize()

    def read_losses(self) -> dict[str, float]:
        """Return the mean of each loss and of the gradients' norm since the last reading. This waits for the device.

        Raises:
            DivergedError: one of them was not finite.
        """
        totals, failed_at = torch.stack([self._totals, self._failed_at]).tolist()
        failed = {name: int(at) for name, at in zip(self.names, failed_at, strict=True) if math.isfinite(at)}
        if failed:
            first = min(failed.values())
            names = ", ".join(name for name, at in failed.items() if at == first)
            raise DivergedError(  # by its number in logs, which count from 1
                f"step {first + 1}: {names} is not finite. A smaller rate (solver.rate), a longer warm-up "
                "(solver.warm_up_steps) or clipping (solver.clip_norm) helps where a training diverges"
            )
        self._totals.zero_()
        counted, self._counted = self._counted, 0
        return {name: total / max(1, counted) for name, total in zip(self.names, totals, strict=True)}

    def compute(self, batch: Batch, *, first: bool, last: bool, part: _Part = contextlib.nullcontext) -> None:
        """Do what a graph holds; `part` is entered with the name of each part of it."""
        if first and (gradients := self._gradients()):
            # Kept where they are: a graph for each of several batches, or DistributedDataParallel's buckets share them.
            torch._foreach_zero_(gradients)
        model = self.model
        with model.no_sync() if isinstance(model, DistributedDataParallel) and not last else contextlib.nullcontext():
            losses = self._differentiate(batch, part)
        with torch.no_grad():
            if not self.names:
                self.names = [*losses, "gradient_norm"]
                self._totals = torch.zeros(len(self.names), device=self.device)
                self._failed_at = torch.full_like(self._totals, math.inf)
            values = torch.stack([loss.detach().float() for loss in losses.values()]) * (1 / self.solver.accumulate)
            self._note(slice(0, len(losses)), values)
            if last:
                with part("optimizer"):
                    self._clip()
                    for group in self.optimizer.param_groups:
                        if "capturable" in group:  # AdamW refuses to be captured without it, and warns of it elsewhere
                            group["capturable"] = self.stream is not None and torch.cuda.is_current_stream_capturing()
                    self.optimizer.step()
                    if self.average is not None:
                        self.average.update()
                if not self._keeps_gradients:
                    self.optimizer.zero_grad(set_to_none=True)

    def _differentiate(self, batch: Batch, part: _Part = contextlib.nullcontext) -> dict[str, Tensor]:
        with part("forward"), autocast(self.device, self.solver.precision):
            losses: dict[str, Tensor] = self.model(batch.images, batch.sizes, batch.targets)
        with part("backward"):
            total = torch.stack(list(losses.values())).sum()
            (total / self.solver.accumulate).backward()
        return losses

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.parameters if p.grad is not None]

    def _clip(self) -> None:
        norm = torch.nn.utils.get_total_norm(self._gradients(), foreach=True)
        if self.solver.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.solver.clip_norm, norm, foreach=True)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        self._note(slice(len(self.names) - 1, None), norm.reshape(1).float())

    def _note(self, where: slice, values: Tensor) -> None:
        self._totals[where].add_(values)
        failed_at = torch.where(values.isfinite(), math.inf, self._number.float())
        self._failed_at[where] = torch.minimum(self._failed_at[where], failed_at)

    def _seed(self, step: int, index: int) -> None:
        seed = int(np.random.SeedSequence([self.config.seed, step, self.rank, index]).generate_state(1, np.uint64)[0])
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the context in which a model is called."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
