"""`opsmith explain-error` reads any log and prints what its errors mean."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

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
    assert "no known error in this log" in done.stderr
    assert done.stdout == ("[]\n" if arguments else "")


def test_a_file_that_is_not_there():
    assert CliRunner().invoke(command, ["/nowhere/build.log"]).exit_code == 2
