"""Trains a model with every build in separate processes, and compares them in a table."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from builds import BUILDS, REFERENCE, build
from drawing import draw_curves, draw_pictures
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn


@dataclass(frozen=True)
class Result:
    """One training: the losses of every step by name, the score after every epoch, and a step's median time.

    `pictures` are what a model has drawn, by captions: grey, rows of numbers from 0 to 255.
    """

    losses: dict[str, list[float]]
    scores: list[float]
    step_ms: float
    seconds: float
    note: str = ""
    pictures: dict[str, list[list[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Length:
    """How long a training takes; `steps` are those of an epoch, at most."""

    epochs: int
    steps: int | None = None

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the epochs, and show on stderr how far it is."""
        yield from track(range(self.epochs), description="training", console=Console(stderr=True))


@dataclass(frozen=True)
class Example:
    """One training program. `train` is given a variant, which is a build, "reference" or `rival`, and its length."""

    title: str
    modules: Sequence[str]  # whose operators are built
    score: str
    epochs: int
    train: Callable[[str, Length], Result]
    rival: str | None = None  # what PyTorch has for the same purpose
    builds: Sequence[str] = (*BUILDS, REFERENCE)  # which are trained where none is asked for


def run(example: Example) -> None:
    """Run a training program: build, train each variant in a process of its own, print the table, draw the pictures."""
    parser = argparse.ArgumentParser(description=example.title)
    parser.add_argument(
        "--build",
        action="append",
        choices=[*BUILDS, REFERENCE],
        help=f"may be given several times; default: {', '.join(example.builds)}",
    )
    parser.add_argument("--epochs", type=int, default=example.epochs)
    parser.add_argument("--steps", type=int, help="in an epoch, at most")
    parser.add_argument(
        "--dtype", choices=["float32", "float64"], default="float32", help="of the model and its inputs"
    )
    parser.add_argument("--plot", type=Path, default=Path(sys.argv[0]).with_suffix(".png"), help="where the PNG goes")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.epochs < 1 or (given.steps is not None and given.steps < 1):
        parser.error("--epochs and --steps must be positive")
    if given.only is not None:
        torch.set_num_threads(1)  # the models are small, and a second thread would mostly wait
        torch.set_default_dtype(getattr(torch, given.dtype))
        print(json.dumps(asdict(example.train(given.only, Length(given.epochs, given.steps)))))
        return
    results, build_s = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in filter(None, [*(given.build or example.builds), example.rival]):
            print(f"{variant} ...", file=sys.stderr)
            environment = dict(os.environ)
            if variant in BUILDS:
                environment, build_s[variant] = build(example.modules, variant, Path(folder) / variant)
            command = [sys.executable, sys.argv[0], "--only", variant]
            command += ["--epochs", str(given.epochs), "--dtype", given.dtype]
            command += ["--steps", str(given.steps)] if given.steps is not None else []
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            results[variant] = Result(**json.loads(done.stdout))
    print_table(example, results, build_s)
    draw_curves(example.title, example.score, results, given.plot)
    print(f"\nThe curves are in {given.plot}.")
    for variant, result in results.items():
        if result.pictures:
            file = given.plot.with_stem(f"{given.plot.stem}-{variant}")
            draw_pictures(f"{example.title} ({variant})", result.pictures, file)
            print(f"What {variant} has drawn is in {file}.")


def fit(
    model: nn.Module,
    batches: Callable[[int], Sequence[tuple[Tensor, Tensor]]],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    score: Callable[[], float],
    *,
    length: Length,
    rate: float,
) -> Result:
    """Train with Adam; `batches` gives an epoch's inputs and targets, and `score` is asked after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, scores, times_ms = [], [], []
    model(batches(0)[0][0]).sum().backward()  # what is loaded at the first call is not the training's time
    for epoch in length:
        for inputs, targets in batches(epoch)[: length.steps]:
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            times_ms.append((time.perf_counter() - started) * 1e3)
        with torch.no_grad():
            scores.append(score())
    return Result({"loss": losses}, scores, statistics.median(times_ms), sum(times_ms) / 1e3)


def print_table(example: Example, results: dict[str, Result], build_s: dict[str, float]) -> None:
    """Print one row for each variant."""
    names = list(next(iter(results.values())).losses)
    head = ["", "build", "a step", "training", *(f"last {name}" for name in names), example.score]
    rows = [
        [
            variant,
            f"{build_s[variant]:.1f} s" if variant in build_s else "",
            f"{result.step_ms:.2f} ms",
            f"{result.seconds:.1f} s",
            *(f"{statistics.fmean(result.losses[name][-20:]):.4f}" for name in names),
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
