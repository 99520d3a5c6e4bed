"""Times non-maximum suppression against torchvision, if it is installed, and against the textbook algorithm.

    python benchmarks/nms.py [--device cpu|cuda] [--sizes 1000 4000] [--functions nms] [--output results.json]

There are three kinds of boxes. "random": corners anywhere in 1,000 x 1,000 pixels, sides up to 50; most boxes are kept.
"dense": corners and sides anywhere in 100 x 100; every box overlaps many. "crowded": typical of a detector, boxes around
each of 50 objects, off by 8 pixels. Scores are random, and so are the 80 classes of batched_nms. soft_nms is linear with a
minimum score of 0.05; on a GPU it competes with its own CPU kernel and the copies there and back ("host"), and
soft_nms_padded takes 100.

A sample is one call. On a GPU it ends when the GPU is done, and includes the wait for the number of kept boxes, which every
function that returns that many needs. The padded ones do not, and are also timed in a CUDA graph ("graph"). Half of a small
call is the host's work, and the host of a virtual machine has phases of seconds in which it is half as fast: a Python loop
before and after each case detects them, and such cases are measured again until patience runs out; `host_us` is the loop's
time.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before. The
textbook algorithm (benchmarks/nms/textbook.cpp) is compiled with -O3. `same` tells whether the results were equal; they may
differ if a pair of boxes is at the threshold, up to rounding.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.ops.nms import batched_nms, nms, nms_padded, soft_nms, soft_nms_padded
from turns import captured, compare_samples, load_textbook, on_cpu, on_gpu, record, take_turns, torchvision

TEXTBOOK = Path(__file__).resolve().parent / "nms" / "textbook.cpp"
THRESHOLDS = {"random": (0.5,), "dense": (0.5,), "crowded": (0.3, 0.5, 0.7, 0.9)}
SECONDS_A_CASE = 2.0
MOST_ROUNDS, LEAST_ROUNDS = 31, 3
PATIENCE_S = 10.0  # for all cases together
CLASSES = 80
FUNCTIONS = ("nms", "batched_nms", "nms_padded", "soft_nms", "soft_nms_padded")
# Soft suppression takes a step for each box that is left, and each takes longer the more there are.
MOST_SOFT_BOXES = 4000
# The others' nms looks at all pairs: 100,000 boxes on a CPU would take some 25 s a call, going by 20,000, and a million on
# a GPU 116 GB.
MOST_PAIRED_BOXES = {"cpu": 20000, "cuda": 100000}

Call = Callable[[], Tensor]


def make_boxes(kind: str, count: int, generator: torch.Generator) -> Tensor:
    """Return boxes of one kind, [count, 4], on the CPU."""
    corner = torch.rand(count, 2, generator=generator)
    side = torch.rand(count, 2, generator=generator)
    if kind == "random":
        return torch.cat([1000 * corner, 1000 * corner + 50 * side], 1)
    if kind == "dense":
        return torch.cat([100 * corner, 100 * corner + 100 * side], 1)
    objects = torch.cat([1000 * corner[:50], 1000 * corner[:50] + 20 + 200 * side[:50]], 1)
    which = torch.randint(0, len(objects), (count,), generator=generator)
    return objects[which] + 8 * torch.randn(count, 4, generator=generator)


def find_textbook(folder: Path) -> Callable[[Tensor, Tensor, float], Tensor]:
    """Compile the textbook's algorithm; return it as a function of boxes, scores and threshold."""
    run = load_textbook(TEXTBOOK, folder).textbook_nms
    run.restype = ctypes.c_int64
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p]

    def textbook(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
        keep = torch.empty(len(boxes), dtype=torch.int64)
        return keep[: run(boxes.data_ptr(), scores.data_ptr(), len(boxes), threshold, keep.data_ptr())]

    return textbook


def rounds() -> Iterator[int]:
    """Yield the rounds of a case until its time is over."""
    start = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - start > SECONDS_A_CASE:
            break
        yield number


def until_done(call: Call) -> float:
    """Return the seconds of a call until the GPU is done, by the host's clock."""
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


class Host:
    """The host's speed, by a loop in Python, and what patience there is with its slow phases."""

    def __init__(self) -> None:
        self.fastest_s, self.patience_s = self._loop_s(), PATIENCE_S

    def at_full_speed(self, take: Callable[[], Any]) -> tuple[Any, float]:
        """Return what take() returns, and the seconds of the loop; take is called again where the host was slow."""
        while True:
            begin, before_s = time.perf_counter(), self._loop_s()
            result, after_s = take(), self._loop_s()
            self.fastest_s = min(self.fastest_s, before_s, after_s)
            if max(before_s, after_s) < 1.3 * self.fastest_s or self.patience_s < 0:
                return result, max(before_s, after_s)
            self.patience_s -= time.perf_counter() - begin

    @staticmethod
    def _loop_s() -> float:
        samples = []
        for _ in range(21):
            begin = time.perf_counter()
            for _ in range(1000):
                pass
            samples.append(time.perf_counter() - begin)
        return statistics.median(samples)


def warm_up() -> None:
    """Keep the GPU busy for a moment: it was idle, and its clocks were low."""
    factor = torch.randn(4096, 4096, device="cuda")
    for _ in range(200):
        factor @ factor
    torch.cuda.synchronize()


def measure(calls: dict[str, Call], device: str, host: Host, waits: bool) -> dict[str, Any]:
    """Return what is known of a case: times, how many times faster the first contender is, and whether results agree.

    What `waits` for the number of kept boxes cannot be captured in a CUDA graph.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    ours, *others = calls
    results = {ours: calls[ours]()}
    row: dict[str, Any] = {"kept": int((results[ours] >= 0).sum())}
    if device == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated() - before
    results |= {name: calls[name]() for name in others}
    if device == "cuda":
        samples, loop_s = host.at_full_speed(lambda: take_turns(calls, rounds(), until_done))
        row["host_us"] = 1e6 * loop_s
        if not waits:
            row["graph"] = compare_samples(take_turns({ours: captured(calls[ours])}, rounds(), on_gpu))
    else:
        samples = take_turns(calls, rounds(), on_cpu)
    row |= compare_samples(samples)
    for name in others:
        row.setdefault("same", {})[name] = torch.equal(results[name], results[ours])
    return row


def contenders(
    function: str, boxes: Tensor, scores: Tensor, threshold: float, others: dict[str, Any]
) -> dict[str, Call]:
    """Return who takes part in a case, ours first."""
    vision, textbook = others.get("torchvision"), others.get("textbook")
    if function == "nms":
        calls: dict[str, Call] = {"opsmith": lambda: nms(boxes, scores, threshold)}
        if vision:
            calls["torchvision"] = lambda: vision.nms(boxes, scores, threshold)
        if textbook and boxes.device.type == "cpu":
            calls["textbook"] = lambda: textbook(boxes, scores, threshold)
        return calls
    if function == "nms_padded":
        return {"opsmith": lambda: nms_padded(boxes, scores, threshold, 1000)[0]}
    if function == "soft_nms":
        calls = {"opsmith": lambda: soft_nms(boxes, scores, threshold, min_score=0.05)[1]}
        if boxes.is_cuda:
            calls["host"] = lambda: soft_nms(boxes.cpu(), scores.cpu(), threshold, min_score=0.05)[1].to(boxes.device)
        return calls
    if function == "soft_nms_padded":
        return {"opsmith": lambda: soft_nms_padded(boxes, scores, 100, threshold, min_score=0.05)[1]}
    classes = torch.arange(len(boxes), device=boxes.device) * 7919 % CLASSES
    calls = {"opsmith": lambda: batched_nms(boxes, scores, classes, threshold)}
    if vision:
        calls["torchvision"] = lambda: vision.batched_nms(boxes, scores, classes, threshold)
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--functions", choices=FUNCTIONS, nargs="+", default=FUNCTIONS)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    device = arguments.device
    sizes = arguments.sizes or ([1000, 4000, 20000, 100000] + ([1000000] if device == "cuda" else []))
    if device == "cuda":
        warm_up()
    record(measure_all(device, sizes, arguments.functions), device, arguments.output, summary)


def measure_all(device: str, sizes: list[int], functions: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each function, kind of boxes, number of them and threshold."""
    others: dict[str, Any] = {"torchvision": torchvision().ops} if torchvision() else {}
    host = Host()
    with tempfile.TemporaryDirectory() as folder:
        others["textbook"] = find_textbook(Path(folder))
        for count, kind in itertools.product(sizes, THRESHOLDS):
            if count > 100000 and kind != "random":
                continue
            generator = torch.Generator().manual_seed(count)
            boxes = make_boxes(kind, count, generator).to(device)
            scores = torch.rand(count, generator=generator).to(device)
            for function, threshold in itertools.product(functions, THRESHOLDS[kind]):
                if function.startswith("soft") and count > MOST_SOFT_BOXES:
                    continue
                has_rivals = count <= MOST_PAIRED_BOXES[device] or (function == "batched_nms" and count <= 100000)
                calls = contenders(function, boxes, scores, threshold, others if has_rivals else {})
                row = {"function": function, "kind": kind, "boxes": count, "threshold": threshold}
                yield row | measure(calls, device, host, waits="padded" not in function)


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    name = f"{row['function']:15} {row['kind']:8} {row['boxes']:8,} at {row['threshold']}: {row['kept']:7,} kept"
    times = [f"{who} {1e3 * values['median']:.3f} ms" for who, values in row["seconds"].items()]
    faster = [f"{values['median']:.1f}x {who}" for who, values in row.get("times_faster", {}).items()]
    unequal = [f"not the same as {who}" for who, same in row.get("same", {}).items() if not same]
    return f"{name}, {', '.join(times + faster + unequal)}"


if __name__ == "__main__":
    main()
