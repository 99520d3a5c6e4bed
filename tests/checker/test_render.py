"""The report on a screen: the table, the findings, what was not run, the totals."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser

import pytest
import torch

from opsmith.checker.as_json import reports_as_json
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, not_run_for, passed
from opsmith.checker.report import Column, Report, Result
from opsmith.report.check.grid import grid_of, reasons_of
from opsmith.report.check.page import reports_as_html
from opsmith.report.check.text import report_lines
from opsmith.report.terminal import for_encoding
from opsmith.report.units import short_dtype
from opsmith.subject.case import Case, TensorRecipe

F64, F16 = Column("cpu", "float64"), Column("cpu", "float16")
GPU, GPU16 = Column("cuda", "float64"), Column("cuda", "float16")


def results(name: str, *outcomes: tuple[Column, Outcome]) -> tuple[Result, ...]:
    return tuple(Result(name, column, outcome) for column, outcome in outcomes)


WRONG = failed(Finding("y[0] is inf, the reference has 40,000", None, "Sum in float32.", "x = torch.ones(1)"))
REPORT = Report(
    "smooth.lowpass",
    (
        *results("value", (F64, passed(10)), (F16, WRONG)),
        *results("gradient", (F64, passed(3)), (F16, not_run("too coarse"))),
        *results("compile", (Column("cpu", ""), passed())),
        *results("large", (Column("cpu", ""), not_run("--large"))),
        *results("value", (GPU, passed(10)), (GPU16, WRONG)),
        *results("gradient", (GPU, not_run("no gradient")), (GPU16, not_run("no gradient"))),
        *results("compile", (Column("cuda", ""), not_run_for(KeyError("T")))),
        *results("large", (Column("cuda", ""), not_run("--large"))),
    ),
    seed=7,
    seconds=1.25,
)


def test_the_whole_report():
    text = "\n".join(report_lines(REPORT))
    assert (
        text
        == """\
smooth.lowpass    cpu           cuda
                  f64   f16     f64   f16
value              ✓     ✗       ✓     ✗
gradient           ✓     –       –     –
compile               ✓             !
large                 –             –

✗ value, cpu, float16: y[0] is inf, the reference has 40,000
  The same property also fails in cuda float16.
  Sum in float32.
  Smallest case, to paste:

      x = torch.ones(1)

– not run: gradient on cpu in float16 (too coarse)
– not run: large (--large)
– not run: gradient on cuda (no gradient)
– not run: compile on cuda (the check failed with KeyError: 'T')
1 of 4 properties failed · 6 checks of 26 inputs · seed 7 · 1.2 s"""
    )
    assert str(REPORT) == text


def test_verbose_shows_every_column_and_times():
    lines = list(report_lines(REPORT, verbose=True))
    assert sum("y[0] is inf" in line for line in lines) == 2
    assert any(line.startswith("value ") and line.endswith("0.00 s") for line in lines)


def test_a_stream_that_has_no_marks_gets_letters():
    lines = [for_encoding(line, "ascii") for line in report_lines(REPORT)]
    "\n".join(lines).encode("ascii")
    assert [line.split() for line in lines[2:4]] == [
        ["value", "+", "x", "+", "x"],
        ["gradient", "+", *"---"],
    ]


def test_styles_are_asked_for_marks():
    asked: list[tuple[str, str]] = []

    def style(text: str, kind: str) -> str:
        asked.append((text, kind))
        return text

    list(report_lines(REPORT, style=style))
    assert {("✓", "passed"), ("✗", "failed"), ("–", "not run"), ("!", "error")} <= set(asked)


def test_everything_holds():
    report = Report("a.b", results("value", (F64, passed(5))), 0, 0.0)
    assert list(report_lines(report))[-1] == "the property holds · 1 check of 5 inputs · seed 0 · 0.0 s"
    partly = Report("a.b", (*report.results, *results("large", (F64, not_run("no")))), 0, 0.0)
    assert list(report_lines(partly))[-1].startswith("1 of 2 properties hold, 1 not run")


def test_an_operator_without_element_types_has_one_column():
    grid = grid_of(results("value", (Column("cpu", ""), passed())))
    assert grid.columns == {"cpu": (Column("cpu", ""),)}


def test_a_property_that_ran_in_some_columns_is_named_with_the_others():
    assert reasons_of(REPORT)["too coarse"] == ["gradient on cpu in float16"]


@pytest.mark.parametrize(
    ("name", "short"),
    [("float64", "f64"), ("bfloat16", "bf16"), ("int8", "i8"), ("uint8", "u8"), ("bool", "bool"), ("complex64", "c64")],
)
def test_short_names_of_element_types(name: str, short: str):
    assert short_dtype(name) == short


class Page(HTMLParser):
    """What a page holds: its text, its cells by row, and every address in it. Raises where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.rows: list[list[tuple[str, int]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "!doctype"):
            self.open.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.ids |= {given["id"]} if "id" in given else set()
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append((given.get("class", ""), int(given.get("colspan", 1))))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def test_the_page_is_whole_and_needs_nothing_else():
    text = reports_as_html([REPORT, Report("a.b", results("value", (F64, passed(5))), 0, 0.0)])
    page = Page(text)
    # Every address is a place on the page itself; nothing is fetched and nothing runs.
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert all(link.startswith("#") for link in page.links)
    for word in ("<script", "http:", "https:", "@import", "url("):
        assert word not in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_has_the_table_and_the_findings():
    page = Page(reports_as_html([REPORT]))
    cells = [row for row in page.rows if row]
    assert cells[0] == [("passed", 1), ("failed", 1), ("passed", 1), ("failed", 1)]
    assert cells[2] == [("passed", 2), ("error", 2)]
    for part in ("1 of 1 operator failed", "y[0] is inf, the reference has 40,000", "Sum in float32.", "seed 7"):
        assert part in page.text
    assert "gradient on cpu in float16: too coarse" in page.text


def test_the_page_escapes_what_it_shows():
    bad = failed(Finding("<b>&'\"", None, "<script>", "x < y"), note="<i>")
    page = Page(reports_as_html([Report("<a>", results("<v>", (F64, bad)), 0, 0.0, ("<n>",))]))
    for part in ("<b>&'\"", "<script>", "x < y", "<a>", "<v>", "<n>"):
        assert part in page.text


def test_json_has_every_outcome_and_no_nan():
    case = Case({"x": TensorRecipe((2,), "float32", given=torch.tensor([1.0, math.nan])), "a": math.inf, "b": None})
    wrong = failed(Finding("wrong", case, "hint", "snippet"))
    found = reports_as_json([REPORT, Report("a.b", results("value", (F64, wrong)), 3, 0.5)])
    assert found.keys() == {"format", "ok", "machine", "operators"}
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    first, second = found["operators"]
    assert len(first["results"]) == len(REPORT.results)
    assert first["columns"] == {"cpu": ["float64", "float16"], "cuda": ["float64", "float16"]}
    assert [result["state"] for result in first["results"]].count("not run") == 6
    assert [result["is_error"] for result in first["results"]].count(True) == 1
    arguments = second["results"][0]["findings"][0]["case"]["arguments"]
    assert arguments == {
        "x": {"shape": [2], "dtype": "float32", "layout": "contiguous", "values": "normal", "given": [1.0, "nan"]},
        "a": "inf",
        "b": None,
    }
