"""Every entry of the catalogue explains a real output, and says something where nothing more is known."""

from __future__ import annotations

import re
from ctypes.util import find_library
from pathlib import Path

import pytest
from cases import CASES, Case, is_possible, produce
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from opsmith.catalogue import ENTRIES, Entry, Facts, explain

RECORDED = Path(__file__).parent / "recorded"

each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)


NEEDED = {entry.id: Facts(**{entry.needs: "2.10.0"}) if entry.needs else Facts() for entry in ENTRIES}


@each_entry
def test_the_example_is_explained_without_any_facts_but_a_needed_one(entry: Entry):
    found = explain(entry.example, NEEDED[entry.id])
    assert [explanation.id for explanation in found] == [entry.id]
    assert found[0].cause and found[0].remedy
    assert "None" not in found[0].text


@each_entry
def test_the_recorded_output_is_explained(entry: Entry):
    """The first line says which command made the output, or that it is written from public reports."""
    origin, _, output = (RECORDED / f"{entry.id}.txt").read_text(encoding="utf-8").partition("\n")
    assert re.match(r"# (?:made by|written from public reports): \S", origin)
    assert explain(output, NEEDED[entry.id])[0].id == entry.id


def test_an_entry_without_the_fact_that_it_needs_says_nothing():
    for entry in ENTRIES:
        assert not entry.needs or entry.id not in {found.id for found in explain(entry.example)}


@each_entry
def test_every_match_has_one_of_the_words_in_its_last_line(entry: Entry):
    """Lines without one are never shown to the pattern."""

    pattern = re.compile(entry.pattern, re.MULTILINE)

    @settings(max_examples=10, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(pattern))
    def hold(text: str) -> None:
        match = pattern.search(text)
        assert match is not None
        before = text[: match.end()].rstrip("\n")
        assume(before[match.start() :].count("\n") < entry.lines)
        line = before.rpartition("\n")[2] + text[len(before) :].partition("\n")[0]
        assert any(word in line for word in entry.words)

    hold()


@each_entry
def test_every_remedy_has_something_to_type(entry: Entry):
    """A flag, a command or a name in backticks, or an assignment: not only advice."""
    assert re.search(r"`[^`]+`|https://|-\w+", "".join(entry.remedy))


@each_entry
def test_every_sentence_can_be_filled(entry: Entry):
    groups = set(re.compile(entry.pattern).groupindex)
    derived = {"symbol", "package", "toolkit_command"}
    names = {name for text in (*entry.cause, *entry.remedy) for name in re.findall(r"(?<!\{)\{(\w+)\}", text)}
    assert names <= groups | derived | set(Facts.__dataclass_fields__)


def test_no_two_entries_have_one_name():
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert {file.stem for file in RECORDED.glob("*.txt")} == {entry.id for entry in ENTRIES}


@pytest.mark.compile
@pytest.mark.parametrize("case", [case for case in CASES if not case.is_slow], ids=lambda case: case.id)
def test_what_a_program_prints_here_is_explained(case: Case, tmp_path: Path):
    if not is_possible(case):
        pytest.skip(f"needs {', '.join(case.needs)}")
    if case.id == "cuda-header" and Path("/usr/include/cusparse.h").exists():
        pytest.skip("this machine has cuSPARSE among its system headers")
    if case.id == "driver-missing" and find_library("cuda"):
        pytest.skip("this machine has the driver")
    output = produce(case, tmp_path)
    found = explain(output, NEEDED[case.id])
    assert found, output
    assert found[0].id == case.id, output
