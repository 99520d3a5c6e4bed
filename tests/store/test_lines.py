"""The first line that changed is known without the old text."""

from __future__ import annotations

import pytest

from opsmith.store import Change, Miss, digest_file, explain_miss
from opsmith.store.lines import LINES_NAME
from opsmith.store.wording import tell_miss

TEXT = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (TEXT.replace("line 14", "line fourteen"), 14),
        ("new\n" + TEXT, 1),
        (TEXT + "more\n", 21),
        (TEXT.removesuffix("line 20\n"), 20),
        ("", 1),
    ],
)
def test_the_line_of_a_source_is_told(store, publish, tmp_path, now, line):
    source = tmp_path / "lowpass.cu"
    source.write_text(TEXT)
    roots = {"project": tmp_path}
    name = "source <project>/lowpass.cu"
    published = publish(inputs={name: digest_file(source), "torch": "1"}, roots=roots)
    source.write_text(now)
    miss = explain_miss(store, "scale", {name: digest_file(source), "torch": "1"}, roots=roots)
    assert miss == Miss("inputs", (Change(name, "changed", line),), published)
    assert tell_miss(miss).startswith(f"missed: lowpass.cu changed (line {line}), everything else as in the build of ")


def test_the_line_of_a_header_is_told(store, publish, inputs, tmp_path):
    header = tmp_path / "x.h"
    header.write_text(TEXT)
    publish(header, roots={"project": tmp_path})
    header.write_text(TEXT.replace("line 3\n", "\n"))
    miss = explain_miss(store, "scale", inputs, roots={"project": tmp_path})
    assert tell_miss(miss).startswith("missed: x.h changed (line 3), ")


def test_a_source_that_is_not_what_was_built_has_no_lines(store, publish, tmp_path):
    (tmp_path / "a.cpp").write_text(TEXT)
    published = publish(inputs={"source <project>/a.cpp": "another digest"}, roots={"project": tmp_path})
    assert not (published.folder / LINES_NAME).exists()


def test_a_line_that_is_not_known_is_not_guessed(store, publish, tmp_path):
    source = tmp_path / "a.cpp"
    source.write_text(TEXT)
    name = "source <project>/a.cpp"
    published = publish(inputs={name: digest_file(source)}, roots={"project": tmp_path})
    (published.folder / LINES_NAME).write_text("{")
    miss = explain_miss(store, "scale", {name: "0"}, roots={"project": tmp_path})
    assert miss is not None
    assert miss.changes == (Change(name, "changed"),)


def test_other_inputs_are_told_by_what_they_are(store, publish):
    before = {"torch": "1", "compiler host": "1", "command main.cpp.o": "1", "archs": "1", "generated b.cpp": "1"}
    publish(inputs={**before, "source /x.cpp": "1"})
    miss = explain_miss(store, "scale", {**dict.fromkeys(before, "2"), "source /y.cpp": "1"})
    told = tell_miss(miss)
    assert "torch changed, the host compiler changed, the command that makes main.cpp.o changed" in told
    assert "what opsmith generates as b.cpp changed, /y.cpp is new, 1 more, everything else" in told
