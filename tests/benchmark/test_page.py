"""The page: one file that needs no other, with every figure in it, and marks that say what they are."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest
from planted import OTHERS, SIZES, large, report, small, timing

from opsmith.report.bench.grid import tables_of
from opsmith.report.bench.page import reports_as_html
from opsmith.report.bench.plots import memory_plot, number_of, ratio_plot, roof_plot, time_plot
from opsmith.report.scale import log_scale

_VOID = ("meta", "!doctype")


class Page(HTMLParser):
    """What a page holds: its text, the addresses and ids in it, its marks. Raises where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.text = ""
        self.numbers: list[float] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        self._note(attrs)
        if tag == "title":
            self.titles.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open[-1:] == ["title"]:
            self.titles[-1] += data

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.ids += [given["id"]] if "id" in given else []
        for name in ("d", "x", "y", "width", "height", "transform"):
            self.numbers += [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?|nan|inf", given.get(name, ""))]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(reports_as_html([large(), small()]))


def test_it_needs_no_other_file_and_no_network(page: Page):
    text = reports_as_html([large()])
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest", text)
    assert len(text) < 500_000


def test_links_lead_somewhere_and_ids_are_unique(page: Page):
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_every_mark_says_what_it_is(page: Page):
    marks = page.titles[1:]  # the first is the page's own
    assert len(marks) > len(SIZES) * len(OTHERS) * 6
    assert all(" us" in mark or " ms" in mark for mark in marks)
    eager = next(mark for mark in marks if mark.startswith("eager, B 64, N 64"))
    assert "opsmith against it: 5.2" in eager


def test_figures_are_in_a_table_too(page: Page):
    assert "64 x 4096" in page.text
    assert "no difference" in page.text
    assert "the inputs stay in the cache" in page.text


def test_the_machine_and_the_run_are_named(page: Page):
    for word in (
        "Planted GPU",
        "580.65",
        "2.11.0+cu130",
        "4.00 TB/s",
        "700 TFLOP/s in bfloat16",
        "celsius 41",
        "seed 0",
    ):
        assert word.lower() in page.text.lower()


def test_nothing_is_drawn_outside(page: Page):
    assert all(math.isfinite(number) for number in page.numbers)
    assert max(page.numbers) < 2000


def test_texts_are_escaped():
    name = '<script>alert("x")</script>'
    found = report(
        timing(name, "opsmith", 1e-5, bytes_moved=10, share=0.5, notes=(name,)),
        timing(name, name, 2e-5, ratio=2.0, bytes_moved=10),
        timing(name, "b", 0, time=None, wall=None, error=f"failed: {name}"),
        warnings=(name,),
    )
    text = reports_as_html([found])
    assert name not in text
    Page(text)


def test_wrong_results_are_at_the_top():
    found = report(timing("N 4", "opsmith", 0, time=None, wall=None, error="wrong result, not timed: y"))
    page = Page(reports_as_html([found]))
    assert "Do not trust yet: kit.smooth" in page.text
    assert "Nothing could be timed." in page.text


def test_reports_with_little_in_them_have_a_page():
    alone = report(timing("one", "opsmith", 1e-5))  # no bytes, no competitor, no share
    Page(reports_as_html([alone]))
    Page(reports_as_html([report()]))
    Page(reports_as_html([report(timing("", "operator", 1e-5, dtype=""), limits={})]))


def test_what_has_operations_has_a_roofline_and_the_rest_a_bandwidth():
    limits = large().limits
    with_flops = tables_of(large(flops_per_byte=60).timings)[0]
    assert roof_plot(with_flops, limits)[1].startswith("Roofline")
    without = tables_of(large().timings)[0]
    assert roof_plot(without, limits)[1] == "Bandwidth"
    assert 'class="roof"' in roof_plot(without, limits)[0]
    assert 'class="roof"' not in roof_plot(without, {})[0]


def test_no_difference_is_pale():
    table = tables_of((timing("N 4", "opsmith", 1e-5), timing("N 4", "eager", 1e-5, ratio=1.001)))[0]
    assert 'class="bar equal"' in ratio_plot(table)
    table = tables_of((timing("N 4", "opsmith", 1e-5), timing("N 4", "eager", 2e-5, ratio=2.0)))[0]
    assert 'class="bar faster"' in ratio_plot(table)


def test_memory_is_drawn_where_it_was_seen():
    assert memory_plot(tables_of(small().timings)[0]) is None
    assert memory_plot(tables_of(large().timings)[0]) is not None


def test_times_lie_in_the_order_of_their_sizes():
    table = tables_of(large().timings)[0]
    paths = re.findall(r'class="line" d="M([^"]*)"', time_plot(table))
    assert len(paths) == 1 + len(OTHERS)
    for path in paths:
        lefts = [float(point.split()[0]) for point in path.split(" L")]
        assert lefts == sorted(lefts)


def test_a_competitor_has_the_same_colour_everywhere():
    assert number_of("compiled", ["eager", "compiled"]) == number_of("compiled", ["compiled"])
    named = [number_of(name, ["eager", "a", "b", "c"]) for name in ("a", "b", "c")]
    assert len({*named, number_of("eager", []), number_of("opsmith", [])}) == 5


def test_scales():
    scale = log_scale([1e-6, 1e-3], (0, 100), margin=0)
    assert (scale.at(1e-6), scale.at(1e-3)) == (0, 100)
    assert scale.at(10**-4.5) == pytest.approx(50)
    assert (scale.at(0), scale.at(1)) == (0, 100)
    assert scale.ticks() == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3])
    near = log_scale([10.0], (0, 100))
    assert near.low < 10 < near.high
    assert len(near.ticks()) >= 2
    assert 2 <= len(log_scale([1, 1e30], (0, 1)).ticks()) <= 7
    assert log_scale([], (0, 1)).at(1.0) == pytest.approx(0.5)
