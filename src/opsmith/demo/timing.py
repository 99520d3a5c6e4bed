"""How fast the LLTM cell is: forward and backward of reference and kernels, timed in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.demo.names import KERNELS, REFERENCES
from opsmith.demo.table import Table
from opsmith.spec.definition import Device

__all__ = ["SIZES", "Spread", "Timing", "time_all", "time_size", "timing_table"]

# (B, I, S): the tutorial's size, and one where the matrix product has something to do.
SIZES = ((16, 32, 128), (128, 256, 512))

# A sample is as many calls as take about so long, so that the clock's own error does not show.
_SAMPLE_S = 0.004


@dataclass(frozen=True)
class Spread:
    """The middle of some samples, and the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Return the spread of at least two samples."""
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call; `ratio` is how much faster forward and backward together are than the reference."""

    size: tuple[int, int, int]
    device: Device
    variant: str
    rounds: int
    forward_us: Spread
    backward_us: Spread
    ratio: Spread

    @property
    def is_reference(self) -> bool:
        """Whether this is the body in plain PyTorch, which the others are compared with."""
        return self.variant == REFERENCES[self.device]


def time_all(
    devices: Sequence[Device], *, rounds: int, on_size: Callable[[int, int, str], None] | None = None
) -> list[Timing]:
    """Time the LLTM cell in every size on every device; `on_size` is told how many are done, of how many, and the next."""
    timings: list[Timing] = []
    jobs = [(device, size) for device in devices for size in SIZES]
    for done, (device, size) in enumerate(jobs):
        if on_size is not None:
            on_size(done, len(jobs), f"{device}, B{size[0]} I{size[1]} S{size[2]}")
        timings += time_size(size, device, rounds)
    return timings


def time_size(size: tuple[int, int, int], device: Device, rounds: int) -> list[Timing]:
    """Time reference and kernel in one size, in turn: what disturbs the machine for a while disturbs both."""
    from opsmith.ops.lltm import lltm_cell

    inputs = _inputs(size, device)
    functions: dict[str, Callable[..., Any]] = {REFERENCES[device]: lltm_cell.reference, KERNELS[device]: lltm_cell}
    calls = {
        (variant, direction): call
        for variant, function in functions.items()
        for direction, call in _directions(function, inputs).items()
    }
    repeats = {key: _repeats(call, device) for key, call in calls.items()}
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for index in range(rounds):
        for key in list(calls) if index % 2 else list(reversed(calls)):
            samples[key].append(_seconds(calls[key], repeats[key], device) / repeats[key] * 1e6)
    totals = {
        variant: [sum(pair) for pair in zip(samples[variant, "forward"], samples[variant, "backward"], strict=True)]
        for variant in functions
    }
    return [
        Timing(
            size,
            device,
            variant,
            rounds,
            Spread.of(samples[variant, "forward"]),
            Spread.of(samples[variant, "backward"]),
            Spread.of([base / own for base, own in zip(totals[REFERENCES[device]], totals[variant], strict=True)]),
        )
        for variant in functions
    ]


def timing_table(timings: Sequence[Timing], threads: int) -> Table:
    """Return the times as a table."""
    rows = tuple(
        (
            "B{} I{} S{}".format(*timing.size),
            timing.variant,
            _microseconds(timing.forward_us),
            _microseconds(timing.backward_us),
            "1" if timing.is_reference else _ratio(timing.ratio),
        )
        for timing in timings
    )
    rounds = timings[0].rounds if timings else 0
    note = (
        f"One LLTM step, float32, {threads} CPU threads. Median of {rounds} interleaved rounds, ± half the distance of the "
        "quartiles; the ratio is of forward and backward together, within a round."
    )
    columns = ("size", "variant", "forward, us", "backward, us", "times as fast")
    return Table("Speed", columns, "llrrr", rows, note)


def _microseconds(spread: Spread) -> str:
    return f"{spread.median:,.0f} ±{(spread.high - spread.low) / 2:,.0f}"


def _ratio(spread: Spread) -> str:
    return f"{spread.median:.2f} ±{(spread.high - spread.low) / 2:.2f}"


def _inputs(size: tuple[int, int, int], device: Device) -> list[Tensor]:
    batch, inputs, state = size
    shapes = ((batch, inputs), (batch, state), (batch, state), (3 * state, state + inputs), (3 * state,))
    random = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=random) for shape in shapes]
    values[3] /= (state + inputs) ** 0.5
    return [value.to(device).requires_grad_() for value in values]


def _directions(function: Callable[..., Any], inputs: Sequence[Tensor]) -> dict[str, Callable[[], object]]:
    # The body returns what the backward needs, too; a user's gradient comes through hidden state and cell.
    outputs = list(function(*inputs))[:2]
    grads = [torch.ones_like(output) for output in outputs]
    return {
        "forward": lambda: function(*inputs),
        "backward": lambda: torch.autograd.grad(outputs, inputs, grads, retain_graph=True),
    }


def _repeats(call: Callable[[], object], device: Device) -> int:
    _seconds(call, 3, device)  # the first calls fill caches, and pick a product's algorithm
    return max(1, round(_SAMPLE_S / max(1e-7, _seconds(call, 3, device) / 3)))


def _seconds(call: Callable[[], object], repeats: int, device: Device) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started
