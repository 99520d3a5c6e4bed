"""Tables of the operators in opsmith.ops: all figures, a few for an operator's page, the most telling for figures.md.

An operator is two entries: FIGURES names the result files of its page, HEADLINES its rows in docs/results/figures.md. The
files are what `opsmith bench --json` writes. docs/results/operators.md has all of their figures, a page those of the
smallest and the largest size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headline import Figure
from opsmith.benchmark.as_json import reports_from
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.report.bench.grid import Row, machine_words, problem_text, problems_of, tables_of
from opsmith.report.bench.markdown import limit_cell, ratio_cell, time_cell
from opsmith.report.markdown import head_markdown, row_markdown
from opsmith.report.units import duration, ratio_text

__all__ = ["FIGURES", "HEADLINES", "Headline", "few_figures", "figures", "figures_in", "headlines"]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

# Page of docs/operators/, without its ending -> its result files. A file that is not there yet is left out.
FIGURES: dict[str, tuple[str, ...]] = {
    "bias_act": ("bias_act_cpu.json", "bias_act_gpu.json"),
    "filtered_lrelu": ("filtered_lrelu_cpu.json", "filtered_lrelu_gpu.json"),
    "upfirdn2d": ("upfirdn2d_cpu.json", "upfirdn2d_gpu.json"),
    "add2": ("add2_cpu.json", "add2_gpu.json"),
    "mlp": ("mlp_cpu.json", "mlp_gpu.json"),
    "sigmoid": ("sigmoid_cpu.json", "sigmoid_gpu.json"),
    "sigmoid_focal_loss": (
        "focal_loss_sum_cpu.json",
        "focal_loss_classes_sum_cpu.json",
        "focal_loss_sum_gpu.json",
        "focal_loss_classes_sum_gpu.json",
    ),
    "lltm": ("lltm_cell_cpu.json", "lltm_cell_gpu.json", "lltm_gates_cpu.json", "lltm_gates_gpu.json"),
    "lltm_sequence": ("lltm_sequence_cpu.json", "lltm_sequence_gpu.json"),
}


@dataclass(frozen=True)
class Headline:
    """A timing of an operator and one competitor of it. `page` is its page in docs/operators/."""

    page: str
    file: str
    operator: str
    workload: str
    dtype: str
    phase: str
    competitor: str = "eager"


HEADLINES = (
    Headline("add2", "add2_gpu.json", "add2", "shape 268435456", "float32", "forward"),
    Headline("sigmoid", "sigmoid_gpu.json", "sigmoid", "shape 268435456", "float32", "backward"),
    Headline("sigmoid", "sigmoid_cpu.json", "sigmoid", "shape 2097152", "float32", "both"),
    Headline("mlp", "mlp_gpu.json", "mlp", "B 1024, F 5, H 15, O 1", "float32", "both"),
    Headline("mlp", "mlp_gpu.json", "mlp", "B 8192, F 1024, H 4096, O 1024", "bfloat16", "both"),
    Headline("mlp", "mlp_cpu.json", "mlp", "B 16, F 32, H 128, O 1", "float32", "both"),
    Headline("lltm", "lltm_cell_gpu.json", "lltm_cell", "B 16, I 32, S 128", "float32", "both"),
    Headline("lltm", "lltm_cell_gpu.json", "lltm_cell", "B 16, I 32, S 128", "float32", "both", "compiled"),
    Headline("lltm", "lltm_cell_gpu.json", "lltm_cell", "B 256, I 1024, S 1024", "bfloat16", "both"),
    Headline("lltm", "lltm_cell_cpu.json", "lltm_cell", "B 16, I 32, S 128", "float32", "both"),
    Headline("lltm_sequence", "lltm_sequence_cpu.json", "lltm_sequence", "T 100, B 16, I 32, S 128", "float32", "both"),
    Headline("bias_act", "bias_act_gpu.json", "bias_activation", "lrelu, 16 x 128 x 256 x 256", "float16", "forward"),
    Headline(
        "bias_act",
        "bias_act_gpu.json",
        "bias_activation",
        "lrelu, 16 x 128 x 256 x 256",
        "float16",
        "backward",
        "compiled",
    ),
    Headline("bias_act", "bias_act_cpu.json", "bias_activation", "lrelu, 8 x 64 x 128 x 128", "float32", "both"),
    Headline(
        "upfirdn2d",
        "upfirdn2d_gpu.json",
        "upfirdn2d_sized",
        "up 2, 12 separable taps, 8 x 128 x 256 x 256",
        "float16",
        "forward",
    ),
    Headline(
        "upfirdn2d", "upfirdn2d_cpu.json", "upfirdn2d_sized", "up 2, 4x4 taps, 4 x 64 x 64 x 64", "float32", "both"
    ),
    Headline(
        "filtered_lrelu", "filtered_lrelu_gpu.json", "filtered_lrelu_signed", "up 2, down 2", "float16", "forward"
    ),
    Headline("filtered_lrelu", "filtered_lrelu_cpu.json", "filtered_lrelu_sized", "up 2, down 2", "float32", "both"),
    Headline("sigmoid_focal_loss", "focal_loss_sum_gpu.json", "focal_loss_sum", "shape 16000000", "float32", "both"),
    Headline("sigmoid_focal_loss", "focal_loss_sum_cpu.json", "focal_loss_sum", "shape 4194304", "float32", "both"),
)

# Operators whose figures their page leaves to docs/results/operators.md: those that a page has beside its own.
_BESIDE = frozenset({"lltm_gates"})

# CUDA graphs of the operator and of eager: a column of their own, and no competitors.
_GRAPHS = ("graph", "eager graph")

# Competitors by a name that needs no page to explain it.
_NAMES = {"eager": "eager PyTorch", "compiled": "`torch.compile`", "graph": "a CUDA graph of it"}


def figures(page: str) -> str:
    """Return every figure that there is of the operators on a page; raises KeyError where FIGURES does not have it."""
    return figures_in(*FIGURES[page])


def figures_in(*files: str) -> str:
    """Return every figure of some result files."""
    return _tables(report for file in files for report in _reports(file))


def few_figures(page: str) -> str:
    """Return the figures that a page shows: of the smallest and the largest size, the whole step and its forward.

    The backward has its rows where the whole step was not timed. Raises KeyError as `figures` does.
    """
    reports = (report for file in FIGURES[page] for report in _reports(file))
    return _tables(replace(report, timings=_few(report.timings)) for report in reports if _short(report) not in _BESIDE)


def _tables(reports: Iterable[BenchReport]) -> str:
    return "\n\n".join("\n".join(_report(report)) for report in reports) or "Nothing has been measured yet."


def _few(timings: tuple[Timing, ...]) -> tuple[Timing, ...]:
    sizes, phases = [list(dict.fromkeys(getattr(one, name) for one in timings)) for name in ("workload", "phase")]
    told = {"forward", "both" if "both" in phases else "backward"}
    return tuple(one for one in timings if one.workload in (sizes[0], sizes[-1]) and one.phase in told)


def headlines(entries: tuple[Headline, ...] = HEADLINES) -> list[Figure]:
    """Return the figures of `entries`. Raises LookupError where a result file is there and lacks the timing of one."""
    return [figure for entry in entries for figure in _headline(entry)]


def _reports(file: str) -> tuple[BenchReport, ...]:
    path = RESULTS / file
    return reports_from(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else ()


def _report(report: BenchReport) -> Iterator[str]:
    """Yield one report: a row for each element type, phase and size, a column for each competitor that has a time."""
    tables = tables_of(report.timings)
    others = [name for name in dict.fromkeys(name for table in tables for name in table.others) if name not in _GRAPHS]
    has_graph = any(_GRAPHS[0] in table.others for table in tables)
    is_gpu = report.machine.device == "cuda"
    limit = f"; a copy takes {report.limits['copy_bytes_s'] / 1e9:,.0f} GB/s" if "copy_bytes_s" in report.limits else ""
    yield f"**`{_short(report)}`** on {machine_words(report)}, {report.date[:10]}{limit}"
    yield ""
    heads = ["dtype and phase", "sizes", "time", *(f"against {name}" for name in others)]
    heads += ["by the host, against eager"] * is_gpu + ["in a CUDA graph, against eager"] * has_graph + ["of the limit"]
    yield head_markdown(heads)
    for table in tables:
        for row in table.rows:
            cells = [table.title, row.workload, time_cell(row.own), *(ratio_cell(row, name) for name in others)]
            cells += [_host_cell(row)] * is_gpu + [_graph_cell(row)] * has_graph
            yield row_markdown([*cells, limit_cell(row.own)])
    if problems := problems_of(report.timings):
        yield ""
        yield from (f"* {problem_text(problem)}" for problem in problems)


def _host_cell(row: Row) -> str:
    """Return the time of a call by the host's clock, over many calls in a row, and the ratio by that clock."""
    if row.own is None or row.own.wall is None or row.own.is_wrong:
        return "–"
    verdict = row.verdict("eager", "wall")
    return duration(row.own.wall.middle) + (f", {ratio_text(verdict)}" if verdict else "")


def _graph_cell(row: Row) -> str:
    """Return the time of a CUDA graph of a call, and how many times faster that is than one of eager's."""
    own, other = (row.timings.get(name) for name in _GRAPHS)
    if own is None or own.time is None:
        return "–"
    ratio = f", {other.time.middle / own.time.middle:.2f}x" if other is not None and other.time is not None else ""
    return duration(own.time.middle) + ratio


def _headline(entry: Headline) -> Iterator[Figure]:
    for report in _reports(entry.file):
        if _short(report) != entry.operator:
            continue
        place = (entry.workload, entry.dtype, entry.phase)
        for table in tables_of(report.timings):
            row = next((row for row in table.rows if (row.workload, table.dtype, table.phase) == place), None)
            if row is None:
                continue
            verdict = row.verdict(entry.competitor)
            if row.own is None or row.own.time is None or verdict is None:
                raise LookupError(f"{entry.file} has no ratio of {entry} to show")
            within = ", within the noise" if verdict.kind == "equal" else ""
            yield Figure(
                entry.operator,
                entry.page,
                f"{table.title}, {row.workload}",
                duration(row.own.time.middle),
                report.machine.name,
                _NAMES.get(entry.competitor, entry.competitor),
                f"{ratio_text(verdict)}{within}",
                limit_cell(row.own),
            )
            return
        raise LookupError(f"{entry.file} has no timing {place}")
    if (RESULTS / entry.file).is_file():
        raise LookupError(f"{entry.file} has no report of {entry.operator}")


def _short(report: BenchReport) -> str:
    return report.operator.rpartition(".")[2]
