"""`opsmith explain-error` reads any log and prints what its errors mean."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from opsmith.catalogue.table import ENTRIES
from opsmith.cli import explain_error
from opsmith.cli.explain_error import command

LOG = "[1/2] g++ -c a.cpp\ng++: fatal error: Killed signal terminated program cc1plus\nninja: build stopped.\n"


def test_a_log_on_standard_input():
    done = CliRunner().invoke(command, input=LOG)
    assert done.exit_code == 0
    assert "A compiler was killed for lack of memory  [compiler-killed]" in done.output
    assert "remedy  Run fewer compilers at once" in done.output


def test_a_log_in_a_file(tmp_path):
    file = tmp_path / "build.log"
    file.write_bytes(b"\xff\xfe no text\n" + LOG.encode())
    done = CliRunner().invoke(command, [str(file), "--json"])
    assert done.exit_code == 0
    assert [found["id"] for found in json.loads(done.output)] == ["compiler-killed"]
    assert json.loads(done.output)[0]["line"] == LOG.splitlines()[1]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_log_that_is_not_known(arguments):
    done = CliRunner().invoke(command, arguments, input="all is well\n")
    assert done.exit_code == 1
    assert "no known error was found" in done.stderr
    assert done.stdout == ("[]\n" if arguments else "")


def test_a_file_that_is_not_there():
    assert CliRunner().invoke(command, ["/nowhere/build.log"]).exit_code == 2


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_log_that_takes_too_long_is_read_in_part(monkeypatch, where):
    """What was found until then is explained; the rest is said to be unread."""
    monkeypatch.setattr(explain_error, "_MOST_S", 0.0)
    rest = "g++ -c k.cpp\n" * 200_000
    done = CliRunner().invoke(command, input=LOG + rest if where == "first" else rest + LOG)
    assert "read only the first 1 MB" in done.stderr
    assert "tail -c 10M FILE | opsmith explain-error" in done.stderr
    assert ("[compiler-killed]" in done.stdout) == (where == "first")
    assert done.exit_code == (0 if where == "first" else 1)
    assert "in this log" not in done.stderr


def test_a_log_that_is_read_to_its_end_is_not_said_to_be_cut(monkeypatch):
    monkeypatch.setattr(explain_error, "_MOST_S", 0.0)
    assert "read only" not in CliRunner().invoke(command, input=LOG).stderr


def test_waiting_for_a_program_that_still_writes_does_not_count(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(explain_error.time, "monotonic", lambda: clock.now_s)
    assert len(list(explain_error._pieces(clock))) == 10


class FakeClock:
    """A clock, and a log of ten pieces, for each of which a reader waits an hour."""

    now_s = 0.0

    def read(self, _characters: int) -> str:
        self.now_s += 3600
        return LOG if self.now_s <= 36_000 else ""


def test_a_file_without_an_end_ends():
    done = CliRunner().invoke(command, ["/dev/zero"])
    assert done.exit_code == 1
    assert "no text but zero bytes" in done.stderr


def test_the_known_errors_are_listed_without_a_log() -> None:
    done = CliRunner().invoke(command, ["--list"])
    assert done.exit_code == 0
    assert "  A compiler was killed for lack of memory  [compiler-killed]\n" in done.stdout
    known = json.loads(CliRunner().invoke(command, ["--list", "--json"]).stdout)
    assert [one["id"] for one in known] == [entry.id for entry in ENTRIES]
