"""The cases in which roi_align, its pyramid and roi_pool are timed against torchvision's on a GPU.

1,024 boxes of 16 to 500 pixels in two images of 800 x 1,088, and their features at a stride of 4: [2, 256, 200, 272]. Bins
have 2 x 2 sampling points and are `aligned`. "backward" is the gradient of the features alone. Features are contiguous or
channels_last; torchvision, which copies the latter, is timed with contiguous ones in both cases: `layout` is that of ours.
torchvision takes boxes of the features' dtype and does not support bfloat16; its float16 is compared with our bfloat16. A
pyramid has four levels, each half as large as the one before, and the same boxes; its sampling is not `aligned`, as in the
module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.ops.roi_align import MultiScaleRoIAlign, roi_align
from opsmith.ops.roi_pool import roi_pool
from turns import compare_clocks, torchvision

__all__ = ["CASES", "Case", "Size", "make_boxes", "measure_cases"]

ROUNDS = 15
SCALE, SAMPLES = 1 / 4, 2
LEVELS = 4
# What is timed: of tensors of the features, and boxes. A call returns the result, or the gradients.
Function = Callable[[list[Tensor], Tensor], Tensor]
Call = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Size:
    """How much there is of everything: features are [images, channels, height, width]."""

    images: int = 2
    channels: int = 256
    height: int = 200
    width: int = 272
    boxes: int = 1024


@dataclass(frozen=True)
class Case:
    """A function of torchvision.ops with bins of one number, and how many times faster than it ours is to be.

    `sides` are the least and the most pixels of a box's sides, which are spread evenly between the two.
    """

    function: str
    bins: int
    dtype: torch.dtype
    phase: str
    target: float | None = None
    sides: tuple[int, int] | None = None


CASES = (
    Case("roi_align", 7, torch.float32, "forward", 4),
    Case("roi_align", 7, torch.float32, "backward", 6),
    Case("roi_align", 7, torch.float16, "forward", 6),
    Case("roi_align", 7, torch.float16, "backward", 10),
    Case("roi_align", 7, torch.bfloat16, "forward", 6),
    Case("roi_align", 7, torch.bfloat16, "backward", 10),
    Case("roi_align", 14, torch.float32, "forward", 4),
    Case("roi_align", 14, torch.float32, "backward"),
    Case("MultiScaleRoIAlign", 7, torch.float32, "forward", 6),
    Case("MultiScaleRoIAlign", 7, torch.float32, "backward"),
    Case("MultiScaleRoIAlign", 7, torch.bfloat16, "forward"),
    Case("MultiScaleRoIAlign", 7, torch.bfloat16, "backward"),
    Case("roi_pool", 7, torch.float32, "forward", 2),
    Case("roi_pool", 7, torch.float32, "backward", 3),
    Case("roi_pool", 7, torch.float16, "forward"),
    Case("roi_pool", 7, torch.float16, "backward"),
    Case("roi_pool", 7, torch.float32, "forward", sides=(1, 30)),
    Case("roi_pool", 7, torch.float32, "forward", sides=(1, 100)),
    Case("roi_pool", 7, torch.float32, "forward", sides=(50, 200)),
    Case("roi_pool", 7, torch.float32, "forward", sides=(100, 300)),
)


def make_boxes(count: int, images: int, height: int, width: int, sides: tuple[int, int] | None = None) -> Tensor:
    """Return boxes [count, 5] in images of this size, on the CPU: of `sides`, or of 16 to 500 pixels, most of them small."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.rand(count, 2, generator=generator)
    size = 16 + 484 * spread**2 if sides is None else sides[0] + (sides[1] - sides[0]) * spread
    corner = (torch.tensor([width, height]) - size) * torch.rand(count, 2, generator=generator)
    index = torch.randint(0, images, (count, 1), generator=generator)
    return torch.cat([index, corner, corner + size], 1)


def measure_cases(device: str, size: Size, cases: tuple[Case, ...] = CASES) -> Iterator[dict[str, Any]]:
    """Measure each case in both layouts; yield a row as soon as it is known."""
    vision = torchvision() and torchvision().ops
    for case in cases:
        for layout in ("contiguous", "channels_last"):
            yield _measure(case, layout, device, size, vision)


def _measure(case: Case, layout: str, device: str, size: Size, vision: Any) -> dict[str, Any]:
    generator = torch.Generator(device).manual_seed(1)
    levels = LEVELS if case.function == "MultiScaleRoIAlign" else 1
    shapes = [(size.images, size.channels, size.height >> level, size.width >> level) for level in range(levels)]
    features = [torch.randn(shape, generator=generator, device=device) for shape in shapes]
    image = round(size.height / SCALE), round(size.width / SCALE)
    boxes = make_boxes(size.boxes, size.images, *image, case.sides).to(device)
    inner = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    results: dict[str, Tensor] = {}
    calls: dict[str, Call] = {}
    row: dict[str, Any] = {
        "function": case.function,
        "bins": case.bins,
        "dtype": str(case.dtype).removeprefix("torch."),
        "phase": case.phase,
        "layout": layout,
        "target": case.target,
        "sides": case.sides,
    }
    mine = [one.to(case.dtype).contiguous(memory_format=inner) for one in features]
    calls["opsmith"], row["extra_bytes"] = _prepare(
        _function(case, None, image, size.images), mine, boxes, case, device
    )
    results["opsmith"] = calls["opsmith"]()[0]
    if vision is not None:
        dtype = torch.float16 if case.dtype == torch.bfloat16 else case.dtype
        function = _function(case, vision, image, size.images)
        theirs = [one.to(dtype) for one in features]
        calls["torchvision"], _ = _prepare(function, theirs, boxes.to(dtype), case, device)
        results["torchvision"] = calls["torchvision"]()[0]
    # torchvision's pyramid asks how many boxes each level has.
    uncaptured = {"torchvision"} if case.function == "MultiScaleRoIAlign" else set()
    row |= compare_clocks(calls, range(ROUNDS), device, uncaptured)
    for name in list(calls)[1:]:
        # Boxes that were rounded to 16 bits are other boxes.
        if case.dtype == torch.float32:
            row.setdefault("difference", {})[name] = float((results[name] - results["opsmith"]).abs().max())
    return row


def _function(case: Case, library: Any, image: tuple[int, int], images: int) -> Function:
    """Return a case's function, of a library or, where that is None, of ours."""
    if case.function == "MultiScaleRoIAlign":
        make = library.MultiScaleRoIAlign if library else MultiScaleRoIAlign
        module = make([str(level) for level in range(LEVELS)], case.bins, SAMPLES)

        def pyramid(levels: list[Tensor], boxes: Tensor) -> Tensor:
            # Boxes are a list of those of each image, which lie in their order here.
            named = {str(level): features for level, features in enumerate(levels)}
            result: Tensor = module(named, list(boxes[:, 1:].chunk(images)), [image] * images)
            return result

        return pyramid
    function = (
        getattr(library, case.function) if library else {"roi_align": roi_align, "roi_pool": roi_pool}[case.function]
    )
    rest: tuple[Any, ...] = (SCALE, SAMPLES, True) if case.function == "roi_align" else (SCALE,)
    return lambda levels, boxes: function(levels[0], boxes, case.bins, *rest)


def _prepare(function: Function, features: list[Tensor], boxes: Tensor, case: Case, device: str) -> tuple[Call, Any]:
    """Return the call of a phase, which has been made once, and the memory that it takes beside its result."""
    if case.phase == "forward":

        def call() -> tuple[Tensor, ...]:
            return (function(features, boxes),)
    else:
        leaves = [one.clone(memory_format=torch.preserve_format).requires_grad_() for one in features]
        pooled = function(leaves, boxes)
        # The same numbers for all contenders, in the order in which each has its result.
        outer = torch.randn(pooled.shape, generator=torch.Generator(device).manual_seed(2), device=device)
        outer = torch.empty_like(pooled).copy_(outer)

        def call() -> tuple[Tensor, ...]:
            return torch.autograd.grad(pooled, leaves, outer, retain_graph=True)

    nbytes = sum(result.nbytes for result in call())
    if device != "cuda":
        return call, None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return call, torch.cuda.max_memory_allocated() - before - nbytes
