"""Plots the curves of a training, and draws the samples of a model."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from side_by_side import Result

POINTS = 100  # of a curve


def draw_curves(title: str, score: str, results: dict[str, Result], file: Path) -> None:
    """Plot the losses and the score of all variants over the time that they trained."""
    pyplot = _pyplot()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for color, (variant, result) in enumerate(results.items()):
        seconds = result.seconds
        for (name, losses), style in zip(result.losses.items(), ("-", "--", ":"), strict=False):
            every = max(1, len(losses) // POINTS)
            means = [statistics.fmean(losses[at : at + every]) for at in range(0, len(losses), every)]
            times = [seconds * (at + 1) / len(means) for at in range(len(means))]
            label = variant if len(result.losses) == 1 else f"{variant}, {name}"
            left.plot(times, means, style, color=f"C{color}", label=label)
        epochs = len(result.scores)
        right.plot([seconds * (at + 1) / epochs for at in range(epochs)], result.scores, marker=".", label=variant)
    for axes, name in ((left, "loss"), (right, score)):
        axes.set_xlabel("seconds of training")
        axes.set_ylabel(name)
        axes.set_xscale("log")
        axes.grid(alpha=0.3)
    left.legend()
    figure.suptitle(title)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def draw_pictures(title: str, pictures: dict[str, list[list[int]]], file: Path) -> None:
    """Put grey pictures (rows of numbers from 0 to 255) below each other, each with its name beside it."""
    pyplot = _pyplot()
    height, width = len(next(iter(pictures.values()))), len(next(iter(pictures.values()))[0])
    size = (10, 10 * height / width * len(pictures) * 1.1 + 0.5)
    figure, rows = pyplot.subplots(len(pictures), 1, figsize=size, layout="constrained", squeeze=False)
    for axes, (name, picture) in zip(rows[:, 0], pictures.items(), strict=True):
        axes.imshow(picture, cmap="gray", vmin=0, vmax=255)
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.suptitle(title)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
