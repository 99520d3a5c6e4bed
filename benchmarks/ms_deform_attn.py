"""Times ms_deform_attn against the composition of grid_sample that detectors fall back to, and a straightforward kernel.

    python benchmarks/ms_deform_attn.py [--device cpu|cuda] [--output benchmarks/results/ms_deform_attn_gpu.json]

Two images of 800 x 1,066 and their levels at strides 8 to 64: 17,821 pixels of 8 heads of 32 channels, four points a level.
In the encoder every pixel is a query and looks around itself; a decoder has 300 or 900 queries, which look anywhere.
"backward" is the gradient of value, locations and weights. The composition is timed as it is and, on a GPU, compiled; the
kernel (benchmarks/ms_deform_attn/plain_attention.cu) has a thread for each channel, and atomics in its backward. On the CPU
there is one image, and no encoder, for which the composition would take minutes.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before.
`difference` is the largest one between their results and ours, as a part of the largest of ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from opsmith.ops.ms_deform_attn import ms_deform_attn
from turns import compare_clocks, record

SHAPES = [(100, 134), (50, 67), (25, 34), (13, 17)]
PIXELS = sum(height * width for height, width in SHAPES)
HEADS, CHANNELS, POINTS = 8, 32, 4
ROUNDS = 11

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Call = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """What the queries are, of which type all tensors are, and what is timed."""

    queries: str
    dtype: torch.dtype
    phase: str

    @property
    def count(self) -> int:
        """How many queries there are."""
        return PIXELS if self.queries == "encoder" else int(self.queries.split()[1])


QUERIES = ("encoder", "decoder 300", "decoder 900")


def inputs(case: Case, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, locations and weights."""
    random = torch.Generator(device).manual_seed(0)
    images = 2 if device == "cuda" else 1
    grid = (images, case.count, HEADS, len(SHAPES), POINTS)
    sizes = torch.tensor([(width, height) for height, width in SHAPES], device=device)
    if case.queries == "encoder":
        centers = torch.cat([_centers(height, width, device) for height, width in SHAPES])
    else:
        centers = torch.rand(case.count, 2, generator=random, device=device)
    offsets = 2 * torch.randn(*grid, 2, generator=random, device=device) / sizes[:, None]
    value = torch.randn(images, PIXELS, HEADS, CHANNELS, generator=random, device=device)
    weights = torch.randn(*grid[:3], len(SHAPES) * POINTS, generator=random, device=device).softmax(-1).view(grid)
    locations = centers[:, None, None, None] + offsets
    return value.to(case.dtype), locations.to(case.dtype), weights.to(case.dtype)


def _centers(height: int, width: int, device: str) -> Tensor:
    rows, columns = torch.arange(height, device=device), torch.arange(width, device=device)
    y, x = torch.meshgrid((rows + 0.5) / height, (columns + 0.5) / width, indexing="ij")
    return torch.stack([x, y], -1).flatten(0, 1)


def composition(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    """The attention from grid_sample, level by level."""
    images, _, heads, channels = value.shape
    levels = value.split([height * width for height, width in SHAPES], 1)
    grids = (2 * locations - 1).transpose(1, 2).flatten(0, 1)
    samples = [
        grid_sample(
            level.permute(0, 2, 3, 1).reshape(images * heads, channels, *shape), grids[:, :, index], align_corners=False
        )
        for index, (level, shape) in enumerate(zip(levels, SHAPES, strict=True))
    ]
    shares = weights.transpose(1, 2).flatten(0, 1).flatten(2)[:, None]
    sums = (torch.stack(samples, 3).flatten(3) * shares).sum(-1)
    return sums.view(images, heads * channels, -1).transpose(1, 2)


def contenders(case: Case, device: str) -> dict[str, Attention]:
    """Return what is timed, ours first."""
    sizes = torch.tensor(SHAPES, device=device)
    starts = sizes.prod(1).cumsum(0) - sizes.prod(1)
    found: dict[str, Attention] = {
        "opsmith": lambda value, locations, weights: ms_deform_attn(value, sizes, starts, locations, weights),
        "grid_sample": composition,
    }
    if device == "cuda":
        found["grid_sample, compiled"] = torch.compile(composition, dynamic=False)
        if case.dtype == torch.float32:
            sys.path.insert(0, str(Path(__file__).with_suffix("")))
            from plain_attention import plain_attention

            found["a straightforward kernel"] = lambda *three: plain_attention(three[0], sizes, starts, *three[1:])
    return found


def _prepared(attention: Attention, given: tuple[Tensor, ...], phase: str) -> Call:
    if phase == "forward":
        return lambda: (attention(given[0], given[1], given[2]),)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    out = attention(leaves[0], leaves[1], leaves[2])
    outer = torch.randn(out.shape, generator=torch.Generator(out.device).manual_seed(2), device=out.device).to(
        out.dtype
    )
    return lambda: torch.autograd.grad(out, leaves, outer, retain_graph=True)


def measured(device: str, queries: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield a row for each case."""
    dtypes = (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,)
    for case in (Case(*one) for one in _product(queries, dtypes)):
        torch._dynamo.reset()  # else it falls back to eager code after eight cases
        given = inputs(case, device)
        calls = {name: _prepared(attention, given, case.phase) for name, attention in contenders(case, device).items()}
        results = {name: call() for name, call in calls.items()}
        row: dict[str, Any] = {
            "queries": case.queries,
            "dtype": str(case.dtype).removeprefix("torch."),
            "phase": case.phase,
        }
        row |= compare_clocks(calls, range(ROUNDS), device)
        ours = results.pop("opsmith")
        row["difference"] = {name: max(map(_difference, ours, theirs)) for name, theirs in results.items()}
        yield row


def _product(queries: tuple[str, ...], dtypes: tuple[torch.dtype, ...]) -> list[tuple[str, torch.dtype, str]]:
    return [(one, dtype, phase) for one in queries for dtype in dtypes for phase in ("forward", "backward")]


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.double() - theirs.double()).abs().max() / ours.double().abs().max())


def _summary(row: dict[str, Any]) -> str:
    faster = ", ".join(f"{name} {times['median']:.2f}x" for name, times in row["times_faster"].items())
    ours = row["seconds"]["opsmith"]["median"] * 1e6
    return f"{row['queries']:12} {row['dtype']:9} {row['phase']:9} {ours:10.1f} us   {faster}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record(
        measured(given.device, QUERIES if given.device == "cuda" else QUERIES[1:]), given.device, given.output, _summary
    )


if __name__ == "__main__":
    main()
