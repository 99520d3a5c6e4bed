"""Times deform_conv2d against torchvision, if it is installed, and on a CPU against the textbook algorithm.

    python benchmarks/deform_conv2d.py [--device cpu|cuda] [--output benchmarks/results/deform_conv2d_cpu.json]

Version 2 (with a mask), a 3 x 3 filter, padding 1, as many outputs as channels, offsets of 1.5 pixels on average. On a CPU
one image of 64 x 32 x 32; on a GPU 8 images of 256 x 64 x 64, and 32 and 37 of them. "forward" is one call; "both" is one
call and the gradients of all five tensors, "backward" only those. The textbook algorithm
(benchmarks/deform_conv2d/textbook.cpp) is compiled with -O3 and runs on one thread; its backward gets memory from PyTorch,
like the others.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before. On a GPU a
sample is the median of ten calls, between events, all queued before the first has ended; "host" is the time by the host's
clock, and "graph" that of a CUDA graph of ours. torchvision has none, and both sides run on the default stream: up to 0.28
its deform_conv2d launches kernels there whatever the current stream is (pytorch/vision#9513). On another one they run beside
the products that they belong to, and write to memory that others have got since, ours among them.

`difference` is the largest one between their results and ours; torchvision does not support bfloat16, so its float32
competes there. opsmith follows PyTorch's setting of TF32 in convolutions, torchvision that
of matrix products: "everywhere" sets both, "nowhere" neither, and "in convolutions" is how PyTorch is set, where torchvision
computes in float32.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.ops.deform_conv2d import deform_conv2d
from turns import captured, compare_clocks, compare_samples, load_textbook, on_gpu, record, take_turns, torchvision

TEXTBOOK = Path(__file__).resolve().parent / "deform_conv2d" / "textbook.cpp"
KERNEL, PAD = 3, 1
ROUNDS = 21
# Images, channels (and outputs), height, width; the element type; where TF32 is allowed, which matters on a GPU in float32.
CPU_CASES = [((1, 64, 32, 32), torch.float32, "")]
GPU_CASES = [
    ((8, 256, 64, 64), torch.float32, "everywhere"),
    ((8, 256, 64, 64), torch.float32, "nowhere"),
    ((8, 256, 64, 64), torch.float32, "in convolutions"),
    ((8, 256, 64, 64), torch.float16, ""),
    ((8, 256, 64, 64), torch.bfloat16, ""),
    ((32, 256, 64, 64), torch.bfloat16, ""),
    ((37, 256, 64, 64), torch.bfloat16, ""),
]

Call = Callable[[], Tensor]


def make_tensors(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> list[Tensor]:
    """Return input, offset, weight, bias and mask."""
    generator = torch.Generator().manual_seed(0)
    images, channels, height, width = shape
    taps = KERNEL * KERNEL
    made = [
        torch.randn(shape, generator=generator),
        1.9 * torch.randn(images, 2 * taps, height, width, generator=generator),
        torch.randn(channels, channels, KERNEL, KERNEL, generator=generator) / (channels * taps) ** 0.5,
        torch.randn(channels, generator=generator),
        torch.rand(images, taps, height, width, generator=generator),
    ]
    return [one.to(device, dtype) for one in made]


class Sizes(ctypes.Structure):
    """The textbook's sizes."""

    _fields_ = [
        (name, ctypes.c_int64) for name in ("images", "channels", "height", "width", "outputs", "kernel", "pad")
    ]


def textbook(phase: str, made: list[Tensor], grad_out: Tensor, folder: Path) -> Call:
    """Compile the textbook's algorithm; return a call of it, which gives the output or the input's gradient."""
    loaded = load_textbook(TEXTBOOK, folder)
    image, offset, weight, bias, mask = made
    sizes = Sizes(*image.shape, weight.shape[0], KERNEL, PAD)

    def run(name: str, *tensors: Tensor, results: tuple[Tensor, ...]) -> None:
        pointers = [ctypes.c_void_p(one.data_ptr()) for one in tensors]
        getattr(loaded, name)(*pointers, sizes, *(ctypes.c_void_p(one.data_ptr()) for one in results))

    def call() -> Tensor:
        out = torch.empty_like(grad_out)
        run("textbook_deform_conv2d", image, offset, mask, weight, results=(out,))
        out += bias[:, None, None]
        if phase == "forward":
            return out
        gradients = tuple(map(torch.zeros_like, (image, offset, mask, weight)))
        run("textbook_deform_conv2d_backward", grad_out, image, offset, mask, weight, results=gradients)
        grad_out.sum((0, 2, 3))
        return gradients[0]

    return call


def make_case(case: Any, device: str) -> tuple[list[Tensor], Tensor]:
    """Return the tensors of a case, and the output's gradient."""
    shape, dtype, _ = case
    grad_out = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    return make_tensors(shape, device, dtype), grad_out


def by_autograd(phase: str, function: Callable[..., Tensor], made: list[Tensor], grad_out: Tensor) -> Call:
    """Return a call of a function, which gives what the phase ends with. Its nodes belong to the current stream."""

    def forward(image: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        return function(image, offset, weight, bias, padding=PAD, mask=mask)

    if phase == "forward":
        return lambda: forward(*made)
    leaves = [one.clone().requires_grad_() for one in made]
    if phase == "both":
        return lambda: torch.autograd.grad(forward(*leaves), leaves, grad_out)[0]
    out = forward(*leaves)
    return lambda: torch.autograd.grad(out, leaves, grad_out, retain_graph=True)[0]


def contenders(phase: str, case: Any, device: str, folder: Path) -> dict[str, Call]:
    """Return who takes part, ours first. A call returns what the phase ends with."""
    made, grad_out = make_case(case, device)
    calls = {"opsmith": by_autograd(phase, deform_conv2d, made, grad_out)}
    if vision := torchvision():
        if case[1] == torch.bfloat16:
            made, grad_out = [one.float() for one in made], grad_out.float()
        calls["torchvision"] = by_autograd(phase, vision.ops.deform_conv2d, made, grad_out)
    return calls if device == "cuda" else {**calls, "textbook": textbook(phase, made, grad_out, folder)}


def default_stream(device: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which work is queued on the default stream, the one that all contenders keep to."""
    return torch.cuda.stream(torch.cuda.default_stream()) if device == "cuda" else contextlib.nullcontext()


def measure(phase: str, case: Any, device: str) -> dict[str, Any]:
    """Return the times of a phase, how many times faster ours is, and how far results differ."""
    shape, dtype, tf32 = case
    torch.backends.cudnn.allow_tf32 = tf32 in ("everywhere", "in convolutions")
    torch.backends.cuda.matmul.allow_tf32 = tf32 == "everywhere"
    row: dict[str, Any] = {"phase": phase, "shape": shape, "dtype": str(dtype).removeprefix("torch."), "tf32": tf32}
    with tempfile.TemporaryDirectory() as folder, default_stream(device):
        calls = contenders(phase, case, device, Path(folder))
        results = {name: call().float() for name, call in calls.items()}
        row |= compare_clocks(calls, range(ROUNDS), device, uncaptured=calls)
        for name in list(calls)[1:]:
            row.setdefault("difference", {})[name] = float((results[name] - results["opsmith"]).abs().max())
    if device == "cuda":
        row["graph"] = compare_samples(measure_graph(phase, case))
    return row


def measure_graph(phase: str, case: Any) -> dict[str, list[float]]:
    """Return the times of a CUDA graph of ours, whose tensors and nodes are made where it is captured."""
    ours = by_autograd(phase, deform_conv2d, *make_case(case, "cuda"))
    ours()
    return take_turns({"opsmith": captured(ours)}, range(ROUNDS), on_gpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    is_gpu = arguments.device == "cuda"
    cases = GPU_CASES if is_gpu else CPU_CASES
    phases = ("forward", "backward") if is_gpu else ("forward", "both")
    rows = (measure(phase, case, arguments.device) for case in cases for phase in phases)
    record(rows, arguments.device, arguments.output, summary)


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    times = (f"{name} {1e3 * values['median']:.3f} ms" for name, values in row["seconds"].items())
    faster = (f"{values['median']:.1f}x {name}" for name, values in row.get("times_faster", {}).items())
    said = f"{row['shape']} {row['dtype']}{', TF32 ' + row['tf32'] if row['tf32'] else ''}, {row['phase']}"
    return f"{said}: {', '.join((*times, *faster))}; difference {row.get('difference', {})}"


if __name__ == "__main__":
    main()
