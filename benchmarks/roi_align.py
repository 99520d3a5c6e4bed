"""Times roi_align and roi_pool against torchvision, if it is installed, and against the textbook algorithm.

    python benchmarks/roi_align.py [--device cpu|cuda] [--output benchmarks/results/roi_align_cpu.json]

On a GPU it times the cases of benchmarks/roi_align_gpu.py. On the CPU only roi_align: 256 boxes of 16 to 500 pixels in two
images of 800 x 1,088, and their features at a stride of 16: [2, 256, 50, 68], float32. Bins are 7 x 7 with 2 x 2 sampling
points, `aligned`. "forward" is one call; "both" is one call and the gradient of the features. The textbook algorithm
(benchmarks/roi_align/textbook.cpp) is compiled with -O3 and runs on one thread; its backward gets memory from PyTorch, like
the others.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before.
`difference` is the largest one between their results and ours.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.ops.roi_align import roi_align
from roi_align_gpu import Size, make_boxes, measure_cases
from turns import compare_samples, load_textbook, on_cpu, record, take_turns, torchvision

TEXTBOOK = Path(__file__).resolve().parent / "roi_align" / "textbook.cpp"
SHAPE = (2, 256, 50, 68)
BOXES, BINS, SAMPLES, SCALE = 256, 7, 2, 1 / 16
ROUNDS = 21

Call = Callable[[], Tensor]


def find_textbook(folder: Path) -> tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]:
    """Compile the textbook's algorithm; return its forward and its backward."""
    loaded = load_textbook(TEXTBOOK, folder)
    types = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 6, ctypes.c_float, ctypes.c_void_p]
    for function in (loaded.textbook_roi_align, loaded.textbook_roi_align_backward):
        function.restype, function.argtypes = None, types

    def run(function: Any, source: Tensor, boxes: Tensor, result: Tensor) -> Tensor:
        sizes = (len(boxes), *SHAPE[1:], BINS, SAMPLES)
        function(source.data_ptr(), boxes.data_ptr(), *sizes, SCALE, result.data_ptr())
        return result

    def forward(features: Tensor, boxes: Tensor) -> Tensor:
        return run(loaded.textbook_roi_align, features, boxes, torch.empty(len(boxes), SHAPE[1], BINS, BINS))

    def backward(grad_out: Tensor, boxes: Tensor) -> Tensor:
        return run(loaded.textbook_roi_align_backward, grad_out, boxes, torch.zeros(SHAPE))

    return forward, backward


def contenders(phase: str, folder: Path) -> dict[str, Call]:
    """Return who takes part, ours first. A call returns what the phase ends with."""
    boxes = make_boxes(BOXES, SHAPE[0], round(SHAPE[2] / SCALE), round(SHAPE[3] / SCALE))
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(SHAPE, generator=generator)
    grad_out = torch.randn(BOXES, SHAPE[1], BINS, BINS, generator=generator)
    leaf = features.clone().requires_grad_()
    forward, backward = find_textbook(folder)

    def by_autograd(function: Callable[..., Tensor]) -> Call:
        if phase == "forward":
            return lambda: function(features, boxes, BINS, SCALE, SAMPLES, True)
        return lambda: torch.autograd.grad(function(leaf, boxes, BINS, SCALE, SAMPLES, True), leaf, grad_out)[0]

    def textbook() -> Tensor:
        pooled = forward(features, boxes)
        return pooled if phase == "forward" else backward(grad_out, boxes)

    calls: dict[str, Call] = {"opsmith": by_autograd(roi_align)}
    if vision := torchvision():
        calls["torchvision"] = by_autograd(vision.ops.roi_align)
    return {**calls, "textbook": textbook}


def measure(phase: str) -> dict[str, Any]:
    """Return the times of a phase, how many times faster ours is, and how far results differ."""
    with tempfile.TemporaryDirectory() as folder:
        calls = contenders(phase, Path(folder))
        results = {name: call() for name, call in calls.items()}
        samples = take_turns(calls, range(ROUNDS), on_cpu)
    row: dict[str, Any] = {"phase": phase, **compare_samples(samples)}
    for name in list(calls)[1:]:
        row.setdefault("difference", {})[name] = float((results[name] - results["opsmith"]).abs().max())
    return row


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    what = " ".join(str(row[key]) for key in ("function", "bins", "dtype", "phase", "layout", "sides") if row.get(key))
    times = (f"{name} {1e3 * values['median']:.3f} ms" for name, values in row["seconds"].items())
    faster = (f"{values['median']:.1f}x {name}" for name, values in row.get("times_faster", {}).items())
    rest = (f"{key} {row[key]}" for key in ("target", "extra_bytes", "difference") if row.get(key) is not None)
    return f"{what}: {', '.join((*times, *faster, *rest))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows = measure_cases("cuda", Size()) if arguments.device == "cuda" else map(measure, ("forward", "both"))
    record(rows, arguments.device, arguments.output, summary)


if __name__ == "__main__":
    main()
