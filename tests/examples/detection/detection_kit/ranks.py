"""What each of two processes does in test_processes.py: jobs that raise if two do not do what one does."""

from __future__ import annotations

import copy
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from opsmith_detection.config import BoxHeadConfig, load_config
from opsmith_detection.engine.checkpoint import list_checkpoints, load_checkpoint, restore, save_checkpoint, snapshot
from opsmith_detection.engine.distributed import World, gather, join, share_statistics, wrap
from opsmith_detection.engine.inference import evaluated
from opsmith_detection.engine.optimizer import Average, build_optimizer
from opsmith_detection.engine.step import TrainStep
from opsmith_detection.engine.training import Training
from opsmith_detection.models import build_model
from opsmith_detection.models.box_head import BoxHead
from opsmith_detection.models.norms import BatchNorm
from opsmith_detection.structures import Batch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication

from detection_kit.files import annotation, write
from detection_kit.tiny import SMALL, StandIn, batch_of, objects, small_config
from opsmith.ops import box_iou, sigmoid_focal_loss

__all__ = ["JOBS"]


class Quiet(StandIn):
    """Its losses do not depend on random numbers, so that two processes can agree with one."""

    def forward(self, *inputs):
        losses = super().forward(*inputs)
        return {"loss_a": losses["loss_a"], "loss_c": self.last.bias.square().sum()}


def _trained(world: World, steps: range, folder: Path | None = None, evaluates: bool = False, **settings: object):
    """Train on batches of four images, of which each process has its part; go on from a checkpoint if there is one.

    With `evaluates` the losses have those of an evaluation after each step, too.
    """
    distributed = str(settings.pop("distributed", "ddp"))
    config = replace(small_config(ema=0.9, clip_norm=0.5, **settings), distributed=distributed)
    model = Quiet()
    wrapped = wrap(model, config, world)
    optimizer, average = build_optimizer(model, config.solver), Average(model, 0.9)
    if folder is not None:
        restore(load_checkpoint(folder), model, optimizer, average)
    step = TrainStep(wrapped, optimizer, config, average=average, rank=world.rank)
    step.settle(batch_of(1))
    mine = slice(world.rank * 4 // world.size, (world.rank + 1) * 4 // world.size)

    def batches(number: int):
        for index in range(config.solver.accumulate):
            batch = batch_of(4, 10 * number + index)
            yield batch._replace(images=batch.images[mine], sizes=batch.sizes[mine])

    measured: dict[str, float] = {}
    for number in steps:
        step(batches(number), number)
        if evaluates:
            with evaluated(model, average), torch.no_grad():
                measured[f"after step {number}"] = float(model(*batch_of(4)[:2])["loss_a"])
    return snapshot(model, optimizer, average), {**step.read_losses(), **measured}


ALONE = World(0, 1, torch.device("cpu"))
RECOMPUTE = ("model.recompute=true",)


def _same(found, expected) -> None:
    for kind in ("model", "average", "optimizer"):
        torch.testing.assert_close(found[kind], expected[kind], rtol=1e-5, atol=1e-7)


def ddp(world: World, folder: Path) -> None:
    found, losses = _trained(world, range(4))
    expected, expected_losses = _trained(ALONE, range(4))
    _same(found, expected)
    means = sum(one["loss_a"] for one in gather(losses)) / 2
    assert abs(means - expected_losses["loss_a"]) < 1e-5 * means
    assert abs(losses["gradient_norm"] - expected_losses["gradient_norm"]) < 1e-5


def ddp_goes_on_to_the_bit(world: World, folder: Path) -> None:
    """With more than two processes: then the order of gradients in DistributedDataParallel's buckets rounds their sums."""
    for accumulate in (1, 2):
        expected, _ = _trained(world, range(6), accumulate=accumulate)
        content, _ = _trained(world, range(3), accumulate=accumulate)
        own = folder / str(accumulate)
        if world.leads:
            save_checkpoint(own, 3, content, keep=1)
        dist.barrier()
        found, _ = _trained(world, range(3, 6), own, accumulate=accumulate)
        for kind in ("model", "average", "optimizer"):
            torch.testing.assert_close(found[kind], expected[kind], rtol=0, atol=0)


def batch_norm_goes_on_to_the_bit(world: World, folder: Path) -> None:
    """A step that saves and evaluates does not move statistics that are equal by then."""
    path = folder / f"data{world.rank}"
    path.mkdir()
    annotations = write(path, [(64, 64)] * world.size, [annotation(1, 1, [8, 8, 40, 40])])
    settings = [
        *SMALL, "model.mask_head=null", "model.backbone.norm=batch", f"data.train={annotations}", f"data.test={annotations}",
        "data.canvases=[[64, 64]]", "data.shorter_sides=[64]", "data.batch=1", "data.workers=0", "solver.precision=float32",
        "solver.steps=4", "solver.checkpoint_every=2", "solver.evaluate_every=2", "solver.ema=0.9",
    ]  # fmt: skip
    whole, parts = (load_config(None, [*settings, f"output={folder / name}"]) for name in ("whole", "parts"))
    Training(whole, world).run()
    if world.leads:
        parts.output.mkdir()
        for path in (list_checkpoints(whole.output)[0], whole.output / "log.jsonl"):  # which knows of the evaluation
            shutil.copy(path, parts.output)
    dist.barrier()
    Training(parts, world, resume=True).run()
    found, expected = load_checkpoint(parts.output), load_checkpoint(whole.output)
    for kind in ("model", "average", "optimizer"):
        torch.testing.assert_close(found[kind], expected[kind], rtol=0, atol=0)


def ddp_accumulates(world: World, folder: Path) -> None:
    _same(_trained(world, range(4), accumulate=2)[0], _trained(ALONE, range(4), accumulate=2)[0])


def fsdp(world: World, folder: Path) -> None:
    for optimizer in ("sgd", "adamw"):
        found, losses = _trained(world, range(4), distributed="fsdp", optimizer=optimizer)
        expected, expected_losses = _trained(ALONE, range(4), optimizer=optimizer)
        _same(found, expected)
        assert abs(losses["gradient_norm"] - expected_losses["gradient_norm"]) < 1e-5


def fsdp_evaluates(world: World, folder: Path) -> None:
    """An evaluation has the averaged weights of its step, and leaves the training its own."""
    found, losses = _trained(world, range(4), distributed="fsdp", evaluates=True)
    expected, expected_losses = _trained(ALONE, range(4), evaluates=True)
    for number in range(4):
        name = f"after step {number}"
        assert abs(losses[name] - expected_losses[name]) < 1e-5 * expected_losses[name], (name, losses, expected_losses)
    _same(found, expected)


def checkpoints_fit_any_number_of_ranks(world: World, folder: Path) -> None:
    expected, _ = _trained(ALONE, range(6))
    for before, after in (("ddp", "fsdp"), ("fsdp", "ddp"), ("fsdp", "alone"), ("alone", "fsdp")):
        given = ALONE if before == "alone" else world
        content, _ = _trained(given, range(3), distributed=before if before != "alone" else "ddp")
        own = folder / before
        if world.leads:
            save_checkpoint(own, 3, content, keep=1)
        dist.barrier()
        given = ALONE if after == "alone" else world
        found, _ = _trained(given, range(3, 6), own, distributed=after if after != "alone" else "ddp")
        _same(found, expected)


def a_detector_trains(world: World, folder: Path) -> None:
    """Both processes have the same images and draw the same numbers, so they must do what one does."""
    found: dict[str, dict[str, Tensor]] = {}
    settings = [*SMALL, "solver.rate=0.05", "solver.precision=float32", "solver.warm_up_steps=0"]
    for kind, more in (("alone", ()), ("ddp", ()), ("fsdp", ()), ("ddp", RECOMPUTE), ("fsdp", RECOMPUTE)):
        given = ALONE if kind == "alone" else world
        config = load_config(None, [*settings, *more])
        config = replace(config, distributed="ddp" if kind == "alone" else kind)
        torch.manual_seed(0)
        model = build_model(config.model)
        optimizer = build_optimizer(wrapped := wrap(model, config, given), config.solver)
        step = TrainStep(wrapped, optimizer, config)
        batch = objects()
        for number in range(2):
            step(iter([batch]), number)
        tensors = {name.removeprefix("module."): value for name, value in _full(wrapped.state_dict()).items()}
        torch.testing.assert_close(tensors, found.setdefault("alone", tensors), rtol=1e-3, atol=1e-4)


def _full(tensors):
    return {name: t.full_tensor() if isinstance(t, DTensor) else t.clone() for name, t in tensors.items()}


def statistics_become_one(world: World, folder: Path) -> None:
    model = nn.BatchNorm2d(2)
    torch.manual_seed(world.rank)
    model(torch.randn(4, 2, 3, 3))
    average = Average(model, 0.9)
    average.set_step(0)
    model(torch.randn(4, 2, 3, 3))
    average.update()
    own, averaged = gather(model.running_var.tolist()), gather(average.tensors["running_var"].tolist())
    share_statistics(model, average)
    torch.testing.assert_close(model.running_var, torch.tensor(own).mean(0))
    torch.testing.assert_close(average.tensors["running_var"], torch.tensor(averaged).mean(0))


def batch_norm_is_shared(world: World, folder: Path) -> None:
    """Two processes normalise as one does. The first one's second sample does not count."""
    random = torch.Generator().manual_seed(0)
    samples, gradients = (torch.randn(2, 2, 3, 4, 6, generator=random) + 2 for _ in range(2))
    gradients[0, 1] = 0
    norm, x = BatchNorm(3, sync=True), samples[world.rank].clone().requires_grad_()
    y = norm(x, torch.tensor([True, world.rank == 1]))
    y.backward(gradients[world.rank])
    dist.all_reduce(norm.weight.grad)

    alone, whole = nn.BatchNorm2d(3), torch.cat([samples[0, :1], samples[1]]).requires_grad_()
    expected = alone(whole)
    expected.backward(torch.cat([gradients[0, :1], gradients[1]]))
    counted, mine = (slice(0, 1), slice(0, 1)) if world.leads else (slice(0, 2), slice(1, 3))
    found = [y[counted], x.grad[counted], norm.weight.grad, norm.running_mean, norm.running_var]
    wanted = [expected[mine], whole.grad[mine], alone.weight.grad, alone.running_mean, alone.running_var]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def box_head_in_parallel(world: World, folder: Path) -> None:
    """Features split by channels go through opsmith's RoIAlign as they are, and the linear layer behind adds them up."""
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    head = BoxHead(8, 3, BoxHeadConfig(pooled=3, linears=1, channels=16), "batch")
    levels = [torch.randn(1, 8, 32 // 2**i, 32 // 2**i, requires_grad=True) for i in range(4)]
    boxes = torch.rand(1, 6, 2) * 60
    boxes = torch.cat([boxes, boxes + 10 + 50 * torch.rand(1, 6, 2)], 2)
    is_valid = torch.ones(1, 6, dtype=torch.bool)
    logits, deltas = head(levels, boxes, is_valid)
    (logits.square().mean() + deltas.square().mean()).backward()

    def split(name: str, module: nn.Module, mesh) -> None:
        for own, parameter in list(module.named_parameters(recurse=False)):
            by_columns = name == "linears.0" and own == "weight"
            placed = distribute_tensor(parameter.detach(), mesh, [Shard(1) if by_columns else Replicate()])
            module.register_parameter(own, nn.Parameter(placed))

    parallel = distribute_module(copy.deepcopy(head), mesh, split)
    # What the two parts of the weight give is added up here.
    parallel.linears[0].register_forward_hook(lambda _, inputs, out: out.redistribute(placements=[Replicate()]))
    parts = [distribute_tensor(level.detach(), mesh, [Shard(1)]).requires_grad_() for level in levels]
    assert parts[0].to_local().shape[1] == 4
    with implicit_replication():
        found, moves = parallel(parts, boxes, is_valid)
        (found.square().mean() + moves.square().mean()).backward()
    assert isinstance(found, DTensor)
    torch.testing.assert_close(found.full_tensor(), logits)
    torch.testing.assert_close(moves.full_tensor(), deltas)
    for part, level in zip(parts, levels, strict=True):
        if level.grad is not None:
            assert part.grad.placements == (Shard(1),)
            torch.testing.assert_close(part.grad.full_tensor(), level.grad)
    weight = parallel.linears[0].weight
    assert weight.to_local().shape == (16, 36)
    torch.testing.assert_close(weight.grad.full_tensor(), head.linears[0].weight.grad)


def focal_loss_in_parallel(world: World, folder: Path) -> None:
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    logits, targets = torch.randn(6, 4, requires_grad=True), (torch.rand(6, 4) > 0.7).float()
    expected = sigmoid_focal_loss(logits, targets, reduction="none")
    expected.sum().backward()
    for placement in (Shard(0), Shard(1)):
        split = distribute_tensor(logits.detach(), mesh, [placement]).requires_grad_()
        found = sigmoid_focal_loss(split, distribute_tensor(targets, mesh, [placement]), reduction="none")
        assert found.placements == (placement,)
        found.sum().backward()
        torch.testing.assert_close(found.full_tensor(), expected)
        torch.testing.assert_close(split.grad.full_tensor(), logits.grad)


def build(world: World, folder: Path) -> None:
    """Both processes need an operator that the store does not have."""
    dist.barrier()
    boxes = torch.rand(3, 4)
    assert box_iou(boxes, boxes).shape == (3, 3)


_kept: list[TrainStep] = []


def graphs(world: World, folder: Path) -> None:
    """On a GPU for each process: the graph of a step, with NCCL in it, trains as eager code does, and outlives this call."""
    for kind, accumulate, optimizer in (("ddp", 1, "sgd"), ("ddp", 2, "sgd"), ("fsdp", 1, "sgd"), ("fsdp", 1, "adamw")):
        found = {graph: _on_gpus(world, kind, accumulate, optimizer, graph=graph) for graph in (False, True)}
        torch.testing.assert_close(found[True], found[False], rtol=0, atol=0)


def _on_gpus(
    world: World, kind: str, accumulate: int, optimizer_name: str, *, graph: bool
) -> tuple[dict[str, Tensor], dict[str, float], list[float]]:
    solver = {"clip_norm": 0.5, "accumulate": accumulate, "optimizer": optimizer_name}
    # The rate changes in each step, which a graph would not see that has kept it.
    config = replace(small_config(**solver, warm_up_steps=30), distributed=kind, graph=graph)
    stream = torch.cuda.Stream(world.device)
    with torch.cuda.stream(stream):
        wrapped = wrap(Quiet().to(world.device), config, world)
    optimizer = build_optimizer(wrapped, config.solver)
    step = TrainStep(wrapped, optimizer, config, rank=world.rank, stream=stream)
    _kept.append(step)
    measured: list[float] = []
    with torch.cuda.stream(stream):
        step.settle(Batch(*(each.to(world.device) for each in batch_of(2)[:3]), None))
    for number in range(18):
        batch = batch_of(2 + number % 2, 2 * number + world.rank)  # two shapes
        moved = Batch(*(each.to(world.device) for each in batch[:3]), None)
        step(iter([moved] * accumulate), number)
        # Before the capture, and between replays.
        if number in (1, 14, 16):
            with evaluated(wrapped, None), torch.no_grad():
                measured.append(float(wrapped(*moved[:2])["loss_a"]))
    return _full(wrapped.state_dict()), step.read_losses(), measured


JOBS: dict[str, Callable[[World, Path], None]] = {
    job.__name__: job
    for job in (
        ddp,
        ddp_accumulates,
        fsdp,
        fsdp_evaluates,
        checkpoints_fit_any_number_of_ranks,
        a_detector_trains,
        statistics_become_one,
        batch_norm_is_shared,
        box_head_in_parallel,
        focal_loss_in_parallel,
    )
}


def main() -> None:
    """`torchrun -m detection_kit.ranks FOLDER [JOB]`: run jobs; what goes wrong is written to FOLDER/JOB-RANK.txt."""
    folder, chosen = Path(sys.argv[1]), sys.argv[2:]
    others = (build, graphs, ddp_goes_on_to_the_bit, batch_norm_goes_on_to_the_bit)
    jobs = {job.__name__: job for job in others if job.__name__ in chosen} or JOBS
    torch.set_num_threads(1)
    with join("cuda" if graphs.__name__ in jobs else "cpu") as world:
        for name, job in jobs.items():
            own = folder / name
            own.mkdir(exist_ok=True)
            try:
                job(world, own)
                wrong = ""
            except Exception:
                wrong = traceback.format_exc()
            (folder / f"{name}-{world.rank}.txt").write_text(wrong)
            if wrong:  # the other process may wait for this one in a collective
                os._exit(1)
            dist.barrier()


if __name__ == "__main__":
    main()
