"""The report has its parts, needs no other file, and shows what is wrong."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from opsmith.demo.agreement import Agreement, Tally
from opsmith.report.demo.page import write_report

TITLES = (
    "Three builds",
    "Agreement",
    "Where the published gradient fails",
    "Training",
    "Machine",
)


@pytest.fixture
def folder(results, digits, tmp_path: Path) -> Path:
    assert write_report(results, digits, tmp_path / "demo") == tmp_path / "demo" / "report.html"
    return tmp_path / "demo"


def test_every_file_is_there(folder: Path):
    names = {file.name for file in folder.iterdir()}
    pictures = {"loss.svg", "accuracy.svg", "digits.svg"}
    assert names == {"report.html", "report.md", "results.json", *pictures}


def test_the_page_is_whole_and_stands_alone(folder: Path):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert [title for title in TITLES if f"<h2>{title}</h2>" not in page] == []
    # Time, ratio and bandwidth of the benchmark, loss, accuracy and digits; the marks in two legends.
    assert page.count("<svg") == 3 + 3 + 4
    assert "opsmith.lltm_cell" in page and "prefers-color-scheme: dark" in page
    assert "Everything is as promised." in page
    # References inside a picture begin with #, and images are in the text as data.
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)

    depth = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in {"meta", "br", "img"}:
                depth.append(tag)

        def handle_startendtag(self, tag, attrs):
            pass

        def handle_endtag(self, tag):
            assert depth.pop() == tag

    Balanced().feed(page)
    assert depth == []


def test_texts_are_escaped(folder: Path):
    assert "CMake is &lt;not&gt; installed" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_markdown_has_every_table_and_picture(folder: Path):
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert [title for title in (*TITLES, "Check", "Speed") if f"\n## {title}\n" not in text] == []
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures == ["loss.svg", "accuracy.svg", "digits.svg"]
    assert all((folder / name).is_file() for name in pictures)
    tables = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    assert len(tables) == len(TITLES) + 1  # the benchmark's has no heading of its own
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)


def test_a_wrong_prediction_is_marked(folder: Path):
    picture = (folder / "digits.svg").read_text(encoding="utf-8")
    assert picture.count('class="mistaken"') == picture.count('class="frame"') == 1
    assert ">3 ≠ 9</text>" in picture


def test_equal_results_give_equal_files(folder: Path, results, digits, tmp_path: Path):
    write_report(results, digits, tmp_path / "again")
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_a_failure_is_what_the_page_begins_with(with_changes, digits, tmp_path: Path):
    agreement = Agreement(("jit", "cmake"), (Tally("opsmith::lltm_cell", 3, 1000, 1),), ("here: cmake differs",))
    page = write_report(with_changes(agreement=agreement), digits, tmp_path).read_text(encoding="utf-8")
    assert '<h1 class="failed">Not as promised: the libraries do not agree: here: cmake differs.</h1>' in page
    assert "Everything is as promised" not in page
