"""`opsmith bench`: exit codes, what it prints and writes, reports that are shown again, comparisons."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from planted import GPU, small

from opsmith.benchmark.as_json import read_reports, reports_as_json
from opsmith.benchmark.result import BenchReport
from opsmith.cli.bench import command

KIT = Path(__file__).parent / "kit_bench"
TWICE = f"{KIT}/operators.py::twice"
# One size and phase, against what needs no compiler of PyTorch's.
QUICK = ("--device", "cpu", "--size", "B=4,N=64", "--phase", "forward", "--seconds", "2")


def bench(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture
def stored(tmp_path: Path):
    def write(name: str, *reports: BenchReport) -> Path:
        file = tmp_path / name
        file.write_text(reports_as_json(reports))
        return file

    return write


@pytest.mark.compile
def test_an_operator_is_timed(tmp_path: Path):
    page, file = tmp_path / "new" / "page.html", tmp_path / "new" / "report.json"
    done = bench(TWICE, *QUICK, "--against", "sum", "--html", page, "--json", file)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kit_bench.twice  ")
    assert [line.split()[:6] for line in lines if " x N" in line] == [["B", "x", "N", "opsmith", "eager", "sum"]]
    assert any(line.startswith("  4 x 64 ") for line in lines)
    (report,) = read_reports(file)
    assert [t.competitor for t in report.timings] == ["opsmith", "eager", "sum"]
    assert all(t.time is not None and t.time.low <= t.time.middle <= t.time.high for t in report.timings)
    assert "kit_bench.twice" in page.read_text(encoding="utf-8")
    assert f"report: {page}" in done.stderr


@pytest.mark.compile
def test_a_wrong_result_exits_with_1():
    done = bench(f"{KIT}/operators.py::off", *QUICK, "--against", "add", code=1)
    assert "✗ opsmith (float32, B 4, N 64, forward): wrong result" in done.stdout
    assert "eager" in done.stdout


@pytest.mark.compile
def test_json_alone_is_what_is_printed():
    done = bench(TWICE, *QUICK, "--against", "sum", "--json", "-v")
    content = json.loads(done.stdout)
    assert content["ok"] is True
    assert [operator["operator"] for operator in content["operators"]] == ["kit_bench.twice"]
    assert "opsmith  kit_bench.twice  [1/1] float32, B 4, N 64, forward: timing opsmith, eager, sum" in done.stderr


@pytest.mark.slow("three processes that each run a benchmark")
@pytest.mark.compile
def test_further_runs_are_in_processes_of_their_own(tmp_path: Path):
    file = tmp_path / "report.json"
    bench(TWICE, *QUICK, "--against", "sum", "--runs", "2", "--json", file)
    (report,) = read_reports(file)
    assert report.conditions["runs"] == 2
    assert [t.competitor for t in report.timings] == ["opsmith", "eager", "sum"]
    alone = bench(TWICE, *QUICK, "--against", "sum", "--json")
    assert "runs" not in json.loads(alone.stdout)["operators"][0]["conditions"]


@pytest.mark.slow("a benchmark in a process of its own")
@pytest.mark.compile
def test_a_log_has_neither_colours_nor_progress():
    argv = [sys.executable, "-m", "opsmith", "bench", TWICE, *QUICK, "--against", "sum"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""
    assert "kit_bench.twice" in done.stdout


@pytest.mark.slow("a benchmark in a terminal")
@pytest.mark.compile
def test_in_a_terminal():
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"}
    screen = in_terminal([sys.executable, "-m", "opsmith", "bench", TWICE, *QUICK, "--against", "sum"], env)
    # While it runs it says what it does; in the end the report stands there.
    assert "0 of 1  float32, B 4, N 64, forward: timing opsmith" in screen
    assert "seed 0" in screen
    assert not re.search(r"\x1b\[(\d+;)*3\dm", screen)  # bold is no colour


def in_terminal(argv: list[str], env: dict[str, str]) -> str:
    """Run a command in a terminal of its own and return all that it wrote there."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=env, close_fds=True)
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(controller)
    screen = b"".join(parts).decode()
    assert process.wait() == 0, screen
    return screen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module"], "no module or folder no_such_module"),
        ([f"{KIT}/operators.py::none"], "has no 'none'; it declares"),
        ([TWICE, "--phase", "sideways"], "unknown phase 'sideways'"),
        ([TWICE, "--dtype", "int9"], "unknown element type 'int9'"),
        ([TWICE, "--size", "B=4"], "the size N is missing"),
        ([TWICE, "--size", "B=4,N=8,M=2"], "has no size M"),
        ([TWICE, "--size", "B4"], "--size B4: write names and whole numbers"),
        ([TWICE, "--seconds", "0"], "seconds must be more than 0, not 0"),
        ([TWICE, "--runs", "0"], "0 is not in the range"),
        ([TWICE, "--threads", "0"], "threads must be at least 1, not 0"),
        (
            [TWICE, "--against", "nobody"],
            "has no competitor 'nobody' on cpu; there are eager, compiled, max-autotune, sum",
        ),
        ([TWICE, "--device", "tpu"], "'tpu' is not one of"),
        ([f"{KIT}/operators.py", "--against", "sum"], "kit_bench.off has no competitor 'sum'"),
        ([f"{KIT}/operators.py", "--reference", "torch:sin"], "--reference is for one operator"),
        ([TWICE, "--import", "no_such_module"], "--import no_such_module"),
        ([TWICE, "--tolerance", "5"], "--tolerance needs --compare"),
        ([TWICE, "--compare", "no_such.json"], "no_such.json cannot be read: No such file"),
        ([TWICE, "--json", "--markdown"], "--json and --markdown both print"),
        ([TWICE, "--html", str(KIT)], "is a directory"),
        ([TWICE, "--json", str(KIT)], "is a folder; name a file in it"),
        (["no_such.json"], "no_such.json cannot be read"),
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], message: str):
    output = " ".join(bench(*arguments, code=2).output.split())
    assert message in output


def test_a_report_is_shown_again(stored):
    file = stored("report.json", small(), replace(small(), operator="kit.other"))
    lines = bench(file).output.splitlines()
    assert [line for line in lines if line.startswith("kit.")] == [
        "kit.smooth        Planted CPU, 4 threads, torch 2.13.0+cpu",
        "kit.other        Planted CPU, 4 threads, torch 2.13.0+cpu",
    ]
    assert "kit.other" not in bench(f"{file}::smooth").output
    assert bench(file, "--markdown").output.startswith("**`kit.smooth`**")
    assert "it has kit.smooth, kit.other" in bench(f"{file}::none", code=2).output
    assert "--size cannot change it" in " ".join(bench(file, "--size", "B=2", code=2).output.split())


def test_compare(stored):
    before = stored("before.json", small())
    assert "1 of 1 timing slower" in bench(stored("slow.json", small(own=1.3e-5)), "--compare", before, code=1).output
    assert "0 of 1 timing slower, 1 faster" in bench(stored("fast.json", small(own=7e-6)), "--compare", before).output
    assert "0 of 1 timing slower, 0 faster" in bench(before, "--compare", before).output
    tolerant = bench(stored("slow.json", small(own=1.3e-5)), "--compare", before, "--tolerance", "50")
    assert "0 of 1 timing slower" in tolerant.output


def test_compare_with_json_prints_json_alone(stored):
    before, now = stored("before.json", small()), stored("now.json", small(own=1.3e-5))
    done = bench(now, "--compare", before, "--json", code=1)
    content = json.loads(done.stdout)
    assert content["ok"] is False
    assert content["comparison"]["changes"][0]["kind"] == "slower"
    assert "1 of 1 timing slower" in done.stderr


def test_what_cannot_be_compared_exits_with_2(stored, tmp_path: Path):
    before = stored("before.json", small())
    output = " ".join(bench(stored("gpu.json", small(machine=GPU)), "--compare", before, code=2).output.split())
    assert "the device was cpu and is cuda. Create the earlier report again on this machine" in output
    (tmp_path / "cut.json").write_text(before.read_text()[:500])
    output = " ".join(bench(before, "--compare", tmp_path / "cut.json", code=2).output.split())
    assert "It is truncated: was writing it interrupted?" in output


def test_a_report_of_another_machine_is_said_before_anything_is_timed(stored):
    other = stored("other.json", replace(small(), operator="kit_bench.twice"))
    done = bench(TWICE, "--device", "cpu", "--compare", other, code=2)
    assert "the machine was Planted CPU and is" in " ".join(done.output.split())
    assert done.stdout == ""


def test_what_was_measured_is_kept_where_it_cannot_be_compared(stored, tmp_path: Path):
    now, kept = stored("gpu.json", small(machine=GPU)), tmp_path / "kept.json"
    bench(now, "--compare", stored("before.json", small()), "--json", kept, code=2)
    assert read_reports(kept) == (small(machine=GPU),)


def test_a_file_that_cannot_be_written_is_said(stored):
    file = stored("report.json", small())
    output = " ".join(bench(file, "--html", file / "page.html", code=2).output.split())
    assert "page.html cannot be written: " in output


def test_a_report_that_cannot_be_read_is_said_before_anything_is_timed(tmp_path: Path):
    (tmp_path / "text.json").write_text("times")
    done = bench(TWICE, "--compare", tmp_path / "text.json", code=2)
    assert "kit_bench.twice" not in done.stdout
