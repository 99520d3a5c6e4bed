"""What the trainings here share: the builds, one process for each of them, the table that compares them, and the plot."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

BUILDS = ("jit", "setuptools", "cmake")
REFERENCE = "reference"  # the operator's definition, in plain PyTorch


@dataclass(frozen=True)
class Result:
    """One training: the loss of every step, the score on held-out data after every epoch, and a step's median time."""

    losses: list[float]
    scores: list[float]
    step_ms: float
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Example:
    """One training program. `train` is given a variant, which is a build, "reference" or `rival`, and the epochs."""

    title: str
    module: str  # whose operators are built
    rival: str  # what PyTorch has for the same purpose
    score: str
    epochs: int
    train: Callable[[str, int], Result]


def run(example: Example) -> None:
    """Run a training program: build, train each variant in a process of its own, print the table, draw the plot."""
    parser = argparse.ArgumentParser(description=example.title)
    parser.add_argument(
        "--build",
        action="append",
        choices=[*BUILDS, REFERENCE],
        help="may be given several times; default: all of them",
    )
    parser.add_argument("--epochs", type=int, default=example.epochs)
    parser.add_argument("--plot", type=Path, default=Path(sys.argv[0]).with_suffix(".png"), help="where the PNG goes")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.epochs < 1:
        parser.error("--epochs must be positive")
    if given.only is not None:
        torch.set_num_threads(1)  # the models are small, and a second thread would mostly wait
        print(json.dumps(asdict(example.train(given.only, given.epochs))))
        return
    results, build_s = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in [*(given.build or [*BUILDS, REFERENCE]), example.rival]:
            print(f"{variant} ...", file=sys.stderr)
            environment = dict(os.environ)
            if variant in BUILDS:
                environment, build_s[variant] = build(example.module, variant, Path(folder) / variant)
            command = [sys.executable, sys.argv[0], "--only", variant, "--epochs", str(given.epochs)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            results[variant] = Result(**json.loads(done.stdout))
    print_table(example, results, build_s)
    draw(example, results, given.plot)
    print(f"\nThe curves are in {given.plot}.")


def build(module: str, builder: str, folder: Path) -> tuple[dict[str, str], float]:
    """Build a module's operators from nothing; return the environment that has them, and the seconds the build took.

    The JIT's library goes into a store, and a training finds it in the user's own or builds it at the first call. The
    others put it where an installation has it, beside the module: here in a copy of the package.
    """
    import opsmith

    environment = dict(os.environ)
    command = [sys.executable, "-m", "opsmith", "build", module, "--with", builder]
    if builder != "jit":
        package = folder / "opsmith"
        shutil.copytree(
            Path(opsmith.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "_*ops.so")
        )
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        command += ["--output", str(package.joinpath(*module.split(".")[1:-1]))]
    started = time.perf_counter()
    empty = {**environment, "OPSMITH_CACHE_DIR": str(folder / "store")}
    subprocess.run(command, env=empty, stdout=subprocess.DEVNULL, check=True)
    return environment, time.perf_counter() - started


def fit(
    model: nn.Module,
    batches: Callable[[int], Sequence[tuple[Tensor, Tensor]]],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    score: Callable[[], float],
    *,
    epochs: int,
    rate: float,
) -> Result:
    """Train with Adam; `batches` gives an epoch's inputs and targets, and `score` is asked after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, scores, times_ms = [], [], []
    model(batches(0)[0][0]).sum().backward()  # what is loaded at the first call is not the training's time
    for epoch in range(epochs):
        for inputs, targets in batches(epoch):
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            times_ms.append((time.perf_counter() - started) * 1e3)
        with torch.no_grad():
            scores.append(score())
    return Result(losses, scores, statistics.median(times_ms), sum(times_ms) / 1e3)


def print_table(example: Example, results: dict[str, Result], build_s: dict[str, float]) -> None:
    """Print one row for each variant."""
    head = ["", "build", "a step", "training", "last loss", example.score]
    rows = [
        [
            variant,
            f"{build_s[variant]:.1f} s" if variant in build_s else "",
            f"{result.step_ms:.2f} ms",
            f"{result.seconds:.1f} s",
            f"{statistics.fmean(result.losses[-20:]):.4f}",
            f"{result.scores[-1]:.4f}",
        ]
        for variant, result in results.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(f"{example.title}\n")
    for name, *cells in [head, *rows]:
        print("  ".join([name.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True))]))
    for result in results.values():
        if result.note:
            print(f"\n{result.note}")
            break


def draw(example: Example, results: dict[str, Result], file: Path) -> None:
    """Plot loss and score of all variants over the time that they trained."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for variant, result in results.items():
        seconds = result.seconds
        every = max(1, len(result.losses) // 100)
        means = [statistics.fmean(result.losses[at : at + every]) for at in range(0, len(result.losses), every)]
        left.plot([seconds * (at + 1) / len(means) for at in range(len(means))], means, label=variant)
        epochs = len(result.scores)
        right.plot([seconds * (at + 1) / epochs for at in range(epochs)], result.scores, marker=".", label=variant)
    for axes, name in ((left, "loss"), (right, example.score)):
        axes.set_xlabel("seconds of training")
        axes.set_ylabel(name)
        axes.set_xscale("log")
        axes.grid(alpha=0.3)
    left.legend()
    figure.suptitle(example.title)
    figure.savefig(file, dpi=120)
