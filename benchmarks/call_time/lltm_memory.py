"""Measures the memory of an LLTM training step: opsmith's operator against a hand-written torch.autograd.Function.

Both run the same kernels. The hand-written one saves the minimum that they need: neither the bias nor the previous cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from opsmith.ops.lltm import LLTMCell, lltm_cell

__all__ = ["SIZES", "Memory", "measure"]

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
Size = tuple[int, int, int, int]  # steps, batch, input, state

SIZES: list[Size] = [(10, 16, 32, 128), (20, 64, 512, 512)]


@dataclass(frozen=True)
class Memory:
    """Bytes of a training step: the most that was allocated at once beyond what was there, and what was saved."""

    peak_bytes: int
    saved_bytes: int


class ByHand(torch.autograd.Function):
    """One LLTM step around the kernels of opsmith.ops.lltm."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor) -> Any:
        new_hidden, new_cell, gates = torch.ops.opsmith.lltm_cell(inputs, hidden, cell, weight, bias)
        ctx.save_for_backward(inputs, hidden, weight, gates, new_cell)
        ctx.set_materialize_grads(False)
        return new_hidden, new_cell

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor | None, grad_cell: Tensor | None) -> Any:
        inputs, hidden, weight, gates, new_cell = ctx.saved_tensors
        grad_hidden = torch.zeros_like(new_cell) if grad_hidden is None else grad_hidden
        grad_cell = torch.zeros_like(new_cell) if grad_cell is None else grad_cell
        # The kernel reads neither the cell nor the bias, whose places others take.
        return torch.ops.opsmith.lltm_cell_backward(
            grad_hidden, grad_cell, inputs, hidden, new_cell, weight, gates[0], gates, new_cell
        )


CONTENDERS: dict[str, Step] = {"opsmith": lltm_cell, "by hand": ByHand.apply}


def train_step(step: Step, model: LLTMCell, inputs: Tensor) -> Callable[[], None]:
    """Return a function that runs all steps and the backward, from gradients that are None to new ones."""

    def run() -> None:
        model.zero_grad(set_to_none=True)
        hidden = cell = inputs.new_zeros(inputs.shape[1], model.hidden_size)
        for current in inputs:
            hidden, cell = step(current, hidden, cell, model.weight, model.bias)
        hidden.square().sum().backward()

    return run


def measure(size: Size, device: str) -> dict[str, Memory]:
    """Return what each contender takes; raises RuntimeError where their gradients differ."""
    steps, batch, input_size, state_size = size
    torch.manual_seed(0)
    model = LLTMCell(input_size, state_size, device=device)
    inputs = torch.randn(steps, batch, input_size, device=device)
    found, gradients = {}, []
    for name, step in CONTENDERS.items():
        run = train_step(step, model, inputs)
        run()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad(set_to_none=True)
        peak = _peak_on_gpu(run) if device == "cuda" else _peak_on_cpu(run)
        found[name] = Memory(peak, _saved_bytes(run, model))
    if not all(torch.equal(a, b) for a, b in zip(*gradients, strict=True)):
        raise RuntimeError("the two contenders do not compute the same gradients")
    return found


def _peak_on_gpu(run: Callable[[], None]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return torch.cuda.max_memory_allocated() - before


def _peak_on_cpu(run: Callable[[], None]) -> int:
    """Add up what PyTorch's allocator says to the profiler, in the order of time."""
    with torch.profiler.profile(profile_memory=True) as profiled:
        run()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    level = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        level += event.nbytes()
        peak = max(peak, level)
    return peak


def _saved_bytes(run: Callable[[], None], model: LLTMCell) -> int:
    """Count each storage once that is kept for the backward, but for the parameters', which are there anyway."""
    theirs = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in theirs:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no other tensor gets the same address meanwhile
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(kept.values())
