"""The report's pictures, as SVG: the builds, the speed, the loss curves, and digits with their predictions."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from opsmith.demo.builds import Build
from opsmith.demo.digits import Digits
from opsmith.demo.names import KERNELS, REFERENCES
from opsmith.demo.timing import Timing
from opsmith.demo.training import LEAST_LOSS, TARGET, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import Locator

__all__ = ["build_figure", "digit_figure", "loss_figure", "speed_figure", "to_svg"]

_INK, _QUIET, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_COLOURS = {
    KERNELS["cpu"]: "#0b7285",
    KERNELS["cuda"]: "#5c940d",
    **dict.fromkeys(REFERENCES.values(), "#e8590c"),
}
_RIGHT, _WRONG = "#2b8a3e", "#c92a2a"

_GRID_COLUMNS = 14
_SAMPLE = 3 * _GRID_COLUMNS

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _QUIET,
    "axes.titlesize": 10.5,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    # Equal results give equal files.
    "svg.hashsalt": "opsmith",
}


_SMALL: dict[str, Any] = {"ha": "right", "va": "top", "color": _QUIET, "fontsize": 8.5}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _styled(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a function draw in the report's style, and leave the process's own as it is."""

    @wraps(draw)
    def styled(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        import matplotlib as mpl

        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return styled


@_styled
def build_figure(builds: Sequence[Build]) -> Figure:
    """Return a bar for the time of each build."""
    done = [build for build in builds if build.left_out is None]
    figure, (axes,) = _figure(7.4, 0.55 + 0.36 * len(done))
    names, seconds = [build.builder for build in done], [build.seconds for build in done]
    bars = axes.barh(names, seconds, color=_COLOURS[KERNELS["cpu"]], height=0.62)
    axes.bar_label(bars, [f"{value:.1f} s" for value in seconds], padding=5, color=_INK)
    axes.invert_yaxis()
    axes.set_xlim(0, max(seconds) * 1.12)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    return figure


@_styled
def speed_figure(timings: Sequence[Timing]) -> Figure:
    """Return forward and backward of each variant in each size, as stacked bars beside each other."""
    sizes = list(dict.fromkeys((timing.device, timing.size) for timing in timings))
    columns = len({size for _, size in sizes})
    rows = len(sizes) // columns
    figure, panels = _figure(7.4, 2.0 * rows, columns=columns, rows=rows)
    for index, (axes, (device, size)) in enumerate(zip(panels, sizes, strict=True)):
        shown = [timing for timing in timings if (timing.device, timing.size) == (device, size)]
        totals = [timing.forward_us.median + timing.backward_us.median for timing in shown]
        for row, (timing, total) in enumerate(zip(shown, totals, strict=True)):
            colour = _COLOURS[timing.variant]
            axes.barh(row, timing.forward_us.median, color=colour, height=0.6)
            axes.barh(
                row, timing.backward_us.median, left=timing.forward_us.median, color=colour, alpha=0.55, height=0.6
            )
            axes.text(total + 0.02 * max(totals), row, f"{total:,.0f}", va="center")
        names = [timing.variant if index % columns == 0 else "" for timing in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, max(totals) * 1.2)
        axes.set_title("B{} I{} S{}, ".format(*size) + device)
        axes.set_xlabel("us: forward (dark) + backward (light)")
        axes.xaxis.set_major_locator(_few_ticks())
        axes.grid(axis="x", color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    return figure


@_styled
def loss_figure(runs: Sequence[Run]) -> Figure:
    """Return the loss (logarithmic) and the test accuracy of each epoch."""
    figure, (losses, accuracies) = _figure(7.4, 2.7, columns=2)
    for index, run in enumerate(runs):
        is_reference = run.variant in REFERENCES.values()
        look: dict[str, Any] = {
            "color": _COLOURS[run.variant],
            "linewidth": 1.5 if is_reference else 2.6,
            "linestyle": (0, (3, 2)) if is_reference else "-",
            "zorder": 2 + index,
        }
        epochs = range(1, len(run.losses) + 1)
        losses.plot(epochs, run.losses, label=run.variant, **look)
        accuracies.plot(epochs, [100 * accuracy for accuracy in run.accuracies], **look)
    losses.axhline(LEAST_LOSS, color=_QUIET, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    losses.text(0.99, LEAST_LOSS - 0.03, "least possible", transform=losses.get_yaxis_transform(), **_SMALL)
    losses.set_ylim(bottom=0)
    losses.set_title("training loss")
    losses.legend(loc="upper right")
    accuracies.axhline(100 * TARGET, color=_QUIET, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    accuracies.text(
        0.99, 100 * TARGET - 2, f"{TARGET:.0%} asked for", transform=accuracies.get_yaxis_transform(), **_SMALL
    )
    accuracies.set_title(f"test accuracy: {runs[0].accuracy:.2%} at the end")
    accuracies.set_ylim(top=101)
    accuracies.yaxis.set_major_formatter("{x:.0f} %")
    for axes in (losses, accuracies):
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(_few_ticks())
        axes.grid(color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    return figure


@_styled
def digit_figure(run: Run, digits: Digits) -> Figure:
    """Return the first test digits with their predictions, then every other one that is wrong, up to two rows."""
    labels = digits.test_labels.tolist()
    wrong = [index for index in range(_SAMPLE, len(labels)) if run.predictions[index] != labels[index]]
    shown = [*range(min(_SAMPLE, len(labels))), *wrong[: 2 * _GRID_COLUMNS]]
    rows = -(-len(shown) // _GRID_COLUMNS)
    figure, panels = _figure(7.4, 0.69 * rows, columns=_GRID_COLUMNS, rows=rows)
    for axes in panels:
        axes.set_axis_off()
    for axes, index in zip(panels, shown, strict=False):
        predicted, label = run.predictions[index], labels[index]
        is_right = predicted == label
        axes.imshow(digits.test_images[index].tolist(), cmap="gray_r", interpolation="none", vmin=0, vmax=1)
        text = f"{predicted}" if is_right else f"{predicted} ≠ {label}"
        weight = "normal" if is_right else "bold"
        axes.set_title(text, loc="center", pad=2, fontsize=9, fontweight=weight, color=_RIGHT if is_right else _WRONG)
        if not is_right:
            axes.add_patch(_frame())
    return figure


@_styled
def to_svg(figure: Figure) -> str:
    """Return a figure as an <svg> element, without date or XML declaration."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _figure(width: float, height: float, *, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure in inches and its panels, drawn without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, list(panels.flat)


def _few_ticks() -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, integer=True)


def _frame() -> Patch:
    from matplotlib.patches import Rectangle

    return Rectangle((-0.5, -0.5), 8, 8, fill=False, edgecolor=_WRONG, linewidth=1.6)
