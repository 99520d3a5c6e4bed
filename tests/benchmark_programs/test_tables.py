"""The pages show what the result files contain: operators' figures, the README's rows, and nothing that was not measured."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tables as module

    yield module
    sys.modules.pop("tables", None)
    sys.modules.pop("operator_tables", None)
    sys.modules.pop("summary_table", None)
    sys.modules.pop("summary_plot", None)


@pytest.fixture
def operator_tables(tables, monkeypatch, tmp_path):
    """The module with a result of its own: that of sigmoid on the CPU, of which a test may change the figures."""
    import operator_tables as module

    content = json.loads((BENCHMARKS / "results" / "sigmoid_cpu.json").read_text())
    (tmp_path / "sigmoid_cpu.json").write_text(json.dumps(content))
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def change(folder: Path, edit) -> None:
    file = folder / "sigmoid_cpu.json"
    content = json.loads(file.read_text())
    edit(content["operators"][0])
    file.write_text(json.dumps(content))


def first_timing(report, competitor: str):
    return next(timing for timing in report["timings"] if timing["competitor"] == competitor)


def test_every_operator_has_a_page_with_a_region_for_its_figures(tables):
    import operator_tables

    for page in operator_tables.FIGURES:
        text = (ROOT / "docs" / "operators" / f"{page}.md").read_text()
        assert text.count("<!-- figures: begin -->") == text.count("<!-- figures: end -->") == 1
    pages = {page.stem for page in tables.PAGES if "<!-- figures: begin -->" in page.read_text()}
    assert pages == set(operator_tables.FIGURES)


def test_a_page_has_every_size_type_and_phase_of_its_results(operator_tables):
    report = json.loads((operator_tables.RESULTS / "sigmoid_cpu.json").read_text())["operators"][0]
    text = operator_tables.figures("sigmoid")
    own = [timing for timing in report["timings"] if timing["competitor"] == "opsmith"]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(own) > 3
    for timing in own:
        assert any(timing["workload"] in row and timing["dtype"] in row for row in rows)
    assert "against eager" in text and "against compiled" in text


def test_a_page_shows_the_smallest_and_the_largest_size(operator_tables):
    told = [line for line in operator_tables.few_figures("sigmoid").splitlines() if line.startswith("| float")]
    every = operator_tables.figures("sigmoid").splitlines()
    assert [line.split(" | ")[0:2] for line in told] == [
        ["| float32, forward", "shape 1024"],
        ["| float32, forward", "shape 2097152"],
        ["| float32, forward and backward", "shape 1024"],
        ["| float32, forward and backward", "shape 2097152"],
    ]
    assert set(told) < set(every)


def test_a_page_shows_the_backward_where_the_whole_step_was_not_timed(operator_tables):
    def without_steps(report):
        report["timings"] = [timing for timing in report["timings"] if timing["phase"] != "both"]

    change(operator_tables.RESULTS, without_steps)
    assert "| float32, backward | shape 1024 |" in operator_tables.few_figures("sigmoid")


def test_what_a_page_shows_of_contenders_that_took_turns_is_a_part_of_all(tables):
    for name in ("nms", "roi_align", "deform_conv2d", "lstm"):
        few, every = (tables.REGIONS[region]().splitlines() for region in (name, f"all {name}"))
        assert set(few) < set(every)
        assert 5 < len([line for line in few if line.startswith("| ")]) < 20


def test_a_figure_that_changes_changes_the_page(operator_tables):
    before = operator_tables.figures("sigmoid")

    def twice_as_long(report):
        timing = first_timing(report, "opsmith")
        timing["time"] = {name: 2 * value for name, value in timing["time"].items()}

    change(operator_tables.RESULTS, twice_as_long)
    assert operator_tables.figures("sigmoid") != before


def test_what_failed_is_shown_with_its_reason(operator_tables):
    def failing(report):
        first_timing(report, "compiled").update(time=None, verdict=None, error="failed: no compiler")

    change(operator_tables.RESULTS, failing)
    assert "failed: no compiler" in operator_tables.figures("sigmoid")


def test_a_page_without_results_says_so(operator_tables):
    assert operator_tables.figures("add2") == "Nothing has been measured yet."


def test_a_headline_is_the_ratio_in_the_file(operator_tables):
    entry = operator_tables.Headline("sigmoid", "sigmoid_cpu.json", "sigmoid", "shape 1024", "float32", "forward")

    def ratio(report):
        verdict = {"kind": "faster", "ratio": {"middle": 3.25, "low": 3.0, "high": 3.5}, "noise": 0.01}
        first_timing(report, "eager")["verdict"] = verdict

    change(operator_tables.RESULTS, ratio)
    (figure,) = operator_tables.headlines((entry,))
    assert figure.speedup == "3.25x [3.00, 3.50]"
    assert figure.link("docs/operators/") == "[`sigmoid`](docs/operators/sigmoid.md)"


def test_a_headline_is_left_out_without_its_file_and_refused_without_its_timing(operator_tables):
    fields = ("sigmoid", "shape 1024", "float32", "forward")
    absent = operator_tables.Headline("sigmoid", "sigmoid_gpu.json", *fields)
    assert operator_tables.headlines((absent,)) == []
    for name in ("nothing", "eager PyTorch"):
        with pytest.raises(LookupError, match=name):
            operator_tables.headlines((operator_tables.Headline("sigmoid", "sigmoid_cpu.json", *fields, name),))
    other_size = operator_tables.Headline("sigmoid", "sigmoid_cpu.json", "sigmoid", "shape 3", "float32", "forward")
    with pytest.raises(LookupError, match="shape 3"):
        operator_tables.headlines((other_size,))


def test_the_readme_has_eight_rows_with_links_that_lead_somewhere(tables):
    rows = [line for line in tables.REGIONS["summary"]().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 8
    links = [link for row in rows for link in re.findall(r"\]\((.*?)\)", row)]
    assert len(links) == 4
    for link in links:
        assert (ROOT / link).is_file()


def test_the_picture_has_a_bar_for_every_row_with_a_speedup(tables):
    rows = [line for line in tables.REGIONS["summary"]().splitlines() if re.search(r"[\d.]+x \[", line)]
    drawn = ElementTree.fromstring(tables.PICTURES["assets/speedups.svg"]())
    widths = [float(rect.attrib["width"]) for rect in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    speedups = [float(re.search(r"([\d.]+)x \[", row)[1]) for row in rows]
    assert len(widths) == len(speedups) == 7
    assert sorted(range(7), key=widths.__getitem__) == sorted(range(7), key=speedups.__getitem__)
    assert widths[0] / widths[1] == pytest.approx(math.log(speedups[0]) / math.log(speedups[1]), rel=1e-3)


def test_the_page_of_figures_has_a_row_for_every_headline(tables):
    import operator_tables
    import turns_tables

    rows = [line for line in tables.REGIONS["operators"]().splitlines() if line.startswith("| [")]
    assert len(rows) == len(operator_tables.HEADLINES) + len(turns_tables.HEADLINES)


def test_every_region_of_the_tables_is_on_a_page(tables):
    pages = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert [name for name in tables.REGIONS if f"<!-- {name}: begin -->" not in pages] == []


def test_regions_are_filled_and_one_that_does_not_end_is_refused(tables, monkeypatch):
    monkeypatch.setitem(tables.REGIONS, "check", lambda: "new")
    text = "a\n<!-- check: begin -->\nold\n<!-- check: end -->\nb\n"
    assert tables.filled("page", text) == text.replace("old", "new")
    with pytest.raises(ValueError, match="page"):
        tables.filled("page", "<!-- check: begin -->\n")


def test_a_headline_of_contenders_that_took_turns(tables, monkeypatch, tmp_path):
    import turns_tables

    seconds = {"opsmith": {"median": 2e-6}, "torchvision": {"median": 5e-6}}
    faster = {"torchvision": {"median": 2.5, "min": 2.4, "max": 2.6}}
    rows = [
        {"boxes": 1, "seconds": seconds, "times_faster": {}},
        {"boxes": 9, "seconds": seconds, "times_faster": faster},
    ]
    (tmp_path / "nms_gpu.json").write_text(json.dumps({"device": "Planted GPU", "rows": rows}))
    monkeypatch.setattr(turns_tables, "RESULTS", tmp_path)
    entry = turns_tables.TurnsHeadline("nms", "nms_gpu.json", "nms", {"boxes": 9}, "9 boxes")
    (figure,) = turns_tables.turns_headlines((entry,))
    assert (figure.case, figure.time, figure.machine) == ("9 boxes", "2.00 us", "Planted GPU")
    assert (figure.link(), figure.against, figure.speedup) == ("[`nms`](nms.md)", "torchvision", "2.5x [2.4, 2.6]")
    assert not turns_tables.turns_headlines((replace(entry, file="nms_cpu.json"),))
    for lost in (replace(entry, case={"boxes": 1}), replace(entry, case={"boxes": 2})):
        with pytest.raises(LookupError, match="has no case"):
            turns_tables.turns_headlines((lost,))


def test_contenders_that_took_turns_by_three_clocks(tables, monkeypatch, tmp_path):
    import turns_tables

    def compared(ours: float, **theirs: float) -> dict:
        def one(value: float) -> dict:
            return {"median": value, "min": value, "max": value, "count": 1}

        faster = {"times_faster": {name: one(value / ours) for name, value in theirs.items()}} if theirs else {}
        return {"seconds": {name: one(value) for name, value in {"opsmith": ours, **theirs}.items()}, **faster}

    three = {
        **compared(1e-4, torchvision=3e-4),
        "host": compared(2e-4, torchvision=4e-4),
        "graph": compared(5e-5, torchvision=2e-4),
    }
    uncaptured = {**three, "graph": compared(5e-5)}
    about = {"device": "GPU", "threads": None, "torch": "2.11", "date": "2026-11-26"}
    result = {**about, "rows": [three, uncaptured, compared(1e-4, torchvision=3e-4)]}
    (tmp_path / "some_gpu.json").write_text(json.dumps(result))
    monkeypatch.setattr(turns_tables, "RESULTS", tmp_path)
    *_, head, _, first, second, third = turns_tables.turns_tables(("some_gpu.json",), (), lambda row: []).splitlines()
    assert head == (
        "| time | against torchvision | by the host, against torchvision | in a CUDA graph, against torchvision |"
    )
    assert first == "| 100 us | 3.0x [3.0, 3.0] | 200 us, 2.0x [2.0, 2.0] | 50.0 us, 4.0x [4.0, 4.0] |"
    assert second.endswith("| 50.0 us |")
    assert third.endswith("| – | – |")


def test_an_operator_on_a_gpu_has_the_hosts_time_and_that_of_a_graph(operator_tables):
    def on_a_gpu(report):
        report["machine"]["device"] = "cuda"
        own = first_timing(report, "opsmith")
        for name, seconds in (("graph", 2e-6), ("eager graph", 3e-6)):
            time = {"middle": seconds, "low": seconds, "high": seconds}
            report["timings"].append({**own, "competitor": name, "time": time})
        own["wall"] = {"middle": 7e-6, "low": 7e-6, "high": 7e-6}

    assert "by the host" not in operator_tables.figures("sigmoid")
    change(operator_tables.RESULTS, on_a_gpu)
    lines = operator_tables.figures("sigmoid").splitlines()
    head = next(line for line in lines if line.startswith("| dtype"))
    assert "| by the host, against eager | in a CUDA graph, against eager | of the limit |" in head
    assert "against graph" not in head
    first = next(line for line in lines if line.startswith("| float32, forward | shape 1024 |"))
    assert " 7.00 us" in first and "| 2.00 us, 1.50x |" in first


def test_triton_s_calls_and_builds(tables, monkeypatch, tmp_path):
    import triton_tables

    def one(value):
        return {"median": value, "min": value, "max": value, "count": 1}

    monkeypatch.setattr(triton_tables, "RESULTS", tmp_path)
    nothing = "Nothing has been measured yet."
    assert triton_tables.triton_call_figures() == triton_tables.triton_build_figures() == nothing
    about = {"device": "GPU", "cores": 2, "torch": "2.11", "triton": "3.6", "date": "2026-11-27"}
    seconds = {"opsmith": one(4e-6), "triton": one(2e-5), "cuda": one(3.8e-6)}
    host = {"clock": "host", "shape": [8, 128], "dtype": "float32", "seconds": seconds}
    host["times_faster"] = {"triton": one(5.0), "cuda": one(0.95)}
    (tmp_path / "triton_calls.json").write_text(json.dumps({**about, "rows": [host]}))
    *_, head, _, row = triton_tables.triton_call_figures().splitlines()
    assert head.startswith("| a call of the softmax | opsmith, Triton kernel | opsmith, CUDA kernel | Triton, `kernel")
    assert row == (
        "| host's time, 8 x 128, float32 | 4.00 us | 3.80 us, 0.95x [0.95, 0.95] | 20.0 us, 5.00x [5.00, 5.00] |"
    )
    names = ("opsmith", "step", "triton, all", "triton", "with torch")
    ratios = {"opsmith / with torch": one(1.2), "step / triton": one(0.7)}
    built = {"seconds": dict.fromkeys(names, one(2.0)), "of_triton": ratios}
    (tmp_path / "triton_build.json").write_text(json.dumps({**about, **built}))
    *_, first, _, _, _, last = triton_tables.triton_build_figures().splitlines()
    assert first == "| `opsmith build` | 2.00 s [2.00, 2.00] |  |"
    assert last.endswith("| 2.00 s [2.00, 2.00] | 1.20x [1.20, 1.20] |")
