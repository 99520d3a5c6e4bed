"""Writes what the demo leaves behind: report.html, report.md with its pictures, and results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from opsmith.demo.digits import Digits
from opsmith.demo.results import Results
from opsmith.demo.training import KERNELS, LEAST_LOSS, TARGET, Run
from opsmith.report.bench.markdown import report_markdown
from opsmith.report.bench.page import section_of as bench_section
from opsmith.report.check.page import section_of as check_section
from opsmith.report.check.text import report_text
from opsmith.report.demo.tables import (
    agreement_table,
    build_table,
    machine_table,
    slope_table,
    summary_of,
    training_table,
    verdict_of,
)
from opsmith.report.page import fragment, made_on, page
from opsmith.report.plot import FRAME, Point, Series, point_plot
from opsmith.report.scale import linear_scale
from opsmith.report.table import Table, table_markdown

__all__ = ["write_report"]

_TITLE = "opsmith demo: LLTM"
_INTRODUCTION = (
    "One definition of a recurrent cell, built three ways, shown to be equal, checked, timed, and trained on 1,797 "
    "handwritten digits."
)
_CAPTIONS = {
    "loss": "Training loss of each epoch; dotted: the least possible",
    "accuracy": "Test accuracy of each epoch; dotted: the required accuracy",
    "digits": "Test digits with predictions. Red frames are mistakes (prediction ≠ truth), as are all rows below the third.",
}
_DIGITS_A_ROW = 14
_SAMPLE = 3 * _DIGITS_A_ROW
_MOST_WRONG = 2 * _DIGITS_A_ROW
# The colours of what is trained; the reference has the one left.
_NUMBERS = {KERNELS["cpu"]: 0, KERNELS["cuda"]: 5}


def write_report(results: Results, digits: Digits, folder: Path) -> Path:
    """Write the report's files into a folder and return the path of report.html, which needs no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in _pictures(results, digits, standalone=True).items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    (folder / "results.json").write_text(results.to_json() + "\n", encoding="utf-8")
    (folder / "report.md").write_text("\n".join([*_markdown(results), ""]), encoding="utf-8")
    file = folder / "report.html"
    file.write_text(_html(results, digits), encoding="utf-8")
    return file


def _html(results: Results, digits: Digits) -> str:
    return page(
        "demo",
        title=_TITLE,
        tool=_TITLE,
        kind="failed" if results.failures else "passed",
        headline=verdict_of(results),
        links=[],
        introduction=_INTRODUCTION,
        findings=summary_of(results),
        gpu_missing=results.gpu_missing,
        tables=_tables(results),
        checks=[check_section(report, f"check{number}") for number, report in enumerate(results.checks)],
        benchmarks=[bench_section(report, f"bench{number}") for number, report in enumerate(results.benchmarks)],
        variants=[(run.variant, _number_of(run.variant)) for run in results.runs],
        pictures=_pictures(results, digits, standalone=False),
        captions=_CAPTIONS,
        footer=f"{_foot(results)} {made_on(results.machine)}",
    )


def _tables(results: Results) -> dict[str, Table]:
    return {
        "builds": build_table(results.builds),
        "agreement": agreement_table(results.agreement),
        "slopes": slope_table(results.slopes),
        "training": training_table(results.runs),
        "machine": machine_table(results),
    }


def _markdown(results: Results) -> Iterator[str]:
    tables = _tables(results)
    yield from (f"# {_TITLE}", "", _INTRODUCTION, "", f"**{verdict_of(results)}**", "")
    yield from (f"- {found.sign} **{found.topic}**: {found.text}" for found in summary_of(results))
    if results.gpu_missing:
        yield from ("", f"No GPU in this report: {results.gpu_missing}")
    for name in ("builds", "agreement"):
        yield from ("", *table_markdown(tables[name]))
    yield from (
        "",
        "## Check",
        *(line for report in results.checks for line in ("", "```", report_text(report), "```")),
    )
    yield from ("", *table_markdown(tables["slopes"]))
    yield from (
        "",
        "## Speed",
        *(line for report in results.benchmarks for line in ("", report_markdown(report).strip())),
    )
    yield from ("", *table_markdown(tables["training"]))
    yield from (line for name, caption in _CAPTIONS.items() for line in ("", f"![{caption}]({name}.svg)"))
    yield from ("", *table_markdown(tables["machine"]))
    yield from ("", _foot(results))


def _foot(results: Results) -> str:
    return f"Made by opsmith demo in {results.seconds:.0f} s, {results.date}. All figures: results.json."


def _pictures(results: Results, digits: Digits, *, standalone: bool) -> dict[str, Markup]:
    runs = results.runs
    losses = {run.variant: run.losses for run in runs}
    accuracies = {run.variant: [100 * accuracy for accuracy in run.accuracies] for run in runs}
    return {
        "loss": _curves("training loss", losses, "{:.4f}", LEAST_LOSS, standalone=standalone),
        "accuracy": _curves("test accuracy, %", accuracies, "{:.1f}", 100 * TARGET, standalone=standalone),
        "digits": _digits(runs[0], digits, standalone=standalone),
    }


def _curves(label: str, values: Mapping[str, Sequence[float]], form: str, asked: float, *, standalone: bool) -> Markup:
    """Return the curves of all variants by epoch, and a dotted line at the required accuracy."""
    series = [
        Series(
            name,
            _number_of(name),
            [
                Point(epoch, value, f"{name}, epoch {epoch}: {form.format(value)}")
                for epoch, value in enumerate(found, 1)
            ],
            has_line=True,
        )
        for name, found in reversed(list(values.items()))
    ]
    points = [point for one in series for point in one.points]
    x = linear_scale([1, *(point.x for point in points)], (FRAME.left, FRAME.right))
    y = linear_scale([asked, *(point.y for point in points)], (FRAME.bottom, FRAME.top))
    return point_plot(
        label,
        series,
        x,
        y,
        write_x=lambda number: f"{number:g}",
        write_y=lambda number: f"{number:g}",
        x_label="epoch",
        limit=[(x.low, asked), (x.high, asked)],
        standalone=standalone,
    )


def _number_of(variant: str) -> int:
    return _NUMBERS.get(variant, 2)


def _digits(run: Run, digits: Digits, *, standalone: bool) -> Markup:
    """Return the first test digits with their predictions, then others that are wrong."""
    labels = digits.test_labels.tolist()
    wrong = [index for index in range(_SAMPLE, len(labels)) if run.predictions[index] != labels[index]]
    shown = [*range(min(_SAMPLE, len(labels))), *wrong[:_MOST_WRONG]]
    images = [
        (digits.test_images[index].tolist(), run.predictions[index], labels[index], divmod(place, _DIGITS_A_ROW))
        for place, index in enumerate(shown)
    ]
    return fragment("digits", images=images, rows=-(-len(shown) // _DIGITS_A_ROW), standalone=standalone)
