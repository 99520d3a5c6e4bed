"""Makes the tables of README and docs from the results of the benchmarks; `--check` only compares them."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

from boxes_tables import boxes_figures, paste_masks_figures
from check_tables import check_screen, check_times
from deform_conv2d_tables import deform_conv2d_figures, few_deform_conv2d_figures
from detection_tables import detection_figures, digits_figures, profile_figures, scaling_figures
from faster_table import faster_figures
from filtered_lrelu_tables import stylegan3_figures
from floor_table import gradient_floor
from judge_tables import judge_suite, judge_throughput, judge_times, kernelbench
from linear_assignment_tables import linear_assignment_figures
from lstm_table import against_lstm, few_against_lstm
from ms_deform_attn_tables import ms_deform_attn_figures
from mutation_table import mutation_survivors, mutation_table
from nms_tables import few_nms_figures, nms_figures
from operator_tables import FIGURES, few_figures, figures, headlines
from opsmith.benchmark.as_json import reports_from
from roi_align_tables import few_roi_align_figures, roi_align_figures
from summary_table import picture, summary
from toolkit_tables import REGIONS as TOOLKIT_REGIONS
from toolkit_tables import toolkit_table
from triton_tables import triton_build_figures, triton_call_figures, triton_twin_figures
from turns_tables import turns_headlines

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"


def bench_screen() -> str:
    """Return what `opsmith bench` prints, from the report that it wrote."""
    path = HERE / "results" / "lltm_cell_cpu.json"
    if not path.is_file():
        return ""
    (report,) = reports_from(json.loads(path.read_text(encoding="utf-8")))
    sizes = dict.fromkeys(timing.workload for timing in report.timings)
    phases = dict.fromkeys(timing.phase for timing in report.timings)
    options = [f"--phase={phase}" for phase in phases]
    options += [f"--size={size.replace(', ', ',').replace(' ', '=')}" for size in sizes]
    typed = f"$ opsmith bench opsmith.ops.lltm::lltm_cell {' '.join(options)}"
    command = " \\\n".join(textwrap.wrap(typed, 118, subsequent_indent="    ", break_on_hyphens=False))
    return "\n".join(["```console", command, str(report), "```"])


def _cells(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def compare_trust() -> str:
    """Return how often --compare is right, by the number of processes on each side."""
    path = HERE / "results" / "compare_trust.json"
    if not path.is_file():
        return ""
    results = json.loads(path.read_text(encoding="utf-8"))
    machine, slower = results["machine"], list(results["rows"][0]["found"])
    lines = [
        f"`opsmith bench {results['what']}` on {machine['cores']} cores of a shared machine ({machine['name']}, "
        f"{results['date'][:10]}): how many comparisons report a slowdown.",
        "",
        f"| processes before, after | same program | {' | '.join(f'{factor}x slower' for factor in slower)} |",
        "|---" * (2 + len(slower)) + "|",
    ]
    for row in results["rows"]:
        counts = [row["false_alarms"], *row["found"].values()]
        lines.append(
            _cells([f"{row['then']}, {row['now']}", *(f"{count} of {row['comparisons']}" for count in counts)])
        )
    return "\n".join(lines)


def operators() -> str:
    """Return the operators' most telling figures, a row for each."""
    lines = [
        "| operator | case | time | machine | against | speedup | of the machine's limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in (*headlines(), *turns_headlines()):
        cells = [figure.link("../operators/"), figure.case, figure.time, figure.machine, figure.against, figure.speedup]
        lines.append(_cells([*cells, figure.of_limit]))
    return "\n".join(lines)


# What is generated between two marks of a page. "figures", which every operator's page has, differs by page.
REGIONS: dict[str, Callable[[], str]] = {
    "summary": summary,
    "operators": operators,
    **{name: partial(toolkit_table, name) for name in TOOLKIT_REGIONS},
    "floor": gradient_floor,
    "check": check_screen,
    "check times": check_times,
    "bench": bench_screen,
    "compare": compare_trust,
    "judge suite": judge_suite,
    "judge times": judge_times,
    "judge throughput": judge_throughput,
    "kernelbench": kernelbench,
    "lstm": few_against_lstm,
    "mutation": mutation_table,
    "survivors": mutation_survivors,
    "nms": few_nms_figures,
    "roi_align": few_roi_align_figures,
    "deform_conv2d": few_deform_conv2d_figures,
    "detection": detection_figures,
    "detection digits": digits_figures,
    "detection profile": profile_figures,
    "detection scaling": scaling_figures,
    "faster": faster_figures,
    "ms_deform_attn": ms_deform_attn_figures,
    "boxes": boxes_figures,
    "paste_masks": paste_masks_figures,
    "linear_assignment": linear_assignment_figures,
    "stylegan3": stylegan3_figures,
    "triton calls": triton_call_figures,
    "triton build": triton_build_figures,
    "triton twins": triton_twin_figures,
    # What these pages show a few rows of.
    **{f"all {page}": partial(figures, page) for page in FIGURES},
    "all lstm": against_lstm,
    "all nms": nms_figures,
    "all roi_align": roi_align_figures,
    "all deform_conv2d": deform_conv2d_figures,
}
# Pictures, by their place in docs/.
PICTURES: dict[str, Callable[[], str]] = {"assets/speedups.svg": picture}
PAGES = (README, *sorted((README.parent / "docs").rglob("*.md")))


def filled(page: str, text: str) -> str:
    """Return the text of a page, whose file's stem is `page`, with its regions generated."""
    for name, make in {**REGIONS, "figures": lambda: few_figures(page)}.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        if found:
            _, closed, after = rest.partition(end)
            if not closed:
                raise ValueError(f"{page}: {begin} without {end}")
            text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    made = {page: filled(page.stem, page.read_text(encoding="utf-8")) for page in PAGES}
    made |= {README.parent / "docs" / name: make() for name, make in PICTURES.items()}
    for file, text in made.items():
        if not arguments.check:
            file.write_text(text, encoding="utf-8")
        elif not file.is_file() or file.read_text(encoding="utf-8") != text:
            sys.exit(f"{file.name} differs from benchmarks/results; run `python benchmarks/tables.py`")


if __name__ == "__main__":
    main()
