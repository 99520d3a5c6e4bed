"""Several processes, started by torchrun: who they are, and models that they train together.

Each process builds nothing that another one has built: opsmith's store locks a build and shares its result.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from opsmith_detection.config import Config, ConfigError
from opsmith_detection.engine.graphs import release_graphs
from opsmith_detection.engine.optimizer import Average
from opsmith_detection.models.norms import running_statistics

__all__ = ["World", "gather", "join", "reshard", "share_statistics", "wrap"]

# A rank that is late by this much counts as lost: the first batch builds operators.
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class World:
    """The processes of a run, and which one this is."""

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0


@contextmanager
def join(device: str | None = None) -> Iterator[World]:
    """Join the processes that torchrun started, if it did: with NCCL on GPUs, with Gloo on CPUs.

    Wrapped models belong in a function that returns within the context. They hold the process group, and whoever drops the
    last reference to a group of Gloo ends its threads: Python does so under the GIL, for which one of them may wait.

    Args:
        device: "cpu", "cuda" or "cuda:1"; the GPU of this process or, without one, the CPU if it is left out.

    Raises:
        ConfigError: the device does not exist.
    """
    size, local_rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = _find_device(device, local_rank)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if "RANK" not in os.environ:
        yield World(0, 1, chosen)
        return
    with_gpu = chosen.type == "cuda"
    dist.init_process_group("nccl" if with_gpu else "gloo", timeout=_PATIENCE, device_id=chosen if with_gpu else None)
    yield World(dist.get_rank(), size, chosen)
    if with_gpu:
        torch.cuda.synchronize()
        release_graphs()  # or NCCL would wait for their end
    gc.collect()  # FSDP's models are in reference cycles
    dist.destroy_process_group()  # after an error it could wait for the others


def wrap(model: nn.Module, config: Config, world: World) -> nn.Module:
    """Return the model as the processes train it together."""
    if world.size == 1:
        return model
    if config.distributed == "fsdp":
        # FSDP takes no other parameters.
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        mesh = init_device_mesh(world.device.type, (world.size,))
        # Stages of the backbone, and convolutions that lie in a row, are gathered by themselves, the rest with the model.
        for module in list(model.modules()):
            if isinstance(module, nn.Sequential) and len(module) > 1:
                fully_shard(module, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    # Of batch norm each process keeps statistics of its own; `share_statistics` makes them one where they are used.
    # torch 2.13 renames the argument.
    known = inspect.signature(DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    own_buffers: Any = {name: False}
    return DistributedDataParallel(
        model,
        device_ids=[world.device.index] if world.device.type == "cuda" else None,
        **own_buffers,
        gradient_as_bucket_view=True,
        # The first backward, which records the order of gradients, cannot be one of `no_sync`.
        static_graph=config.solver.accumulate == 1,
    )


@torch.no_grad()
def share_statistics(model: nn.Module, average: Average | None) -> None:
    """Give all processes the mean of their running statistics of batch norm, and of the averages of these."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    for statistic in [*running_statistics(model).values(), *(average.statistics if average is not None else ())]:
        dist.all_reduce(statistic)
        statistic.div_(dist.get_world_size())


def reshard(model: nn.Module) -> None:
    """Let go of the parameters that FSDP has gathered, so that the next forward gathers them as they are by then.

    It does so itself after a backward. A forward without one leaves those of the root, and neither a change of the shards
    nor a CUDA graph, whose replays call no hooks, makes them new.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def gather(value: Any) -> list[Any]:
    """Return what each process gave, by rank. All processes take part."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _find_device(name: str | None, local_rank: int) -> torch.device:
    count = torch.cuda.device_count()
    name = name or ("cuda" if count else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    cuda = re.fullmatch(r"cuda(?::(\d+))?", name)
    index = int(cuda[1] or local_rank) if cuda else count
    if index >= count:
        raise ConfigError(
            f"--device {name} is not here for process {local_rank}: write cpu, cuda or cuda:1. PyTorch finds {count} GPUs"
        )
    return torch.device("cuda", index)
