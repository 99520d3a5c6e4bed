"""The program that runs the tests under each torch goes on after a failure, counts, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import each_torch
from each_torch import VERSIONS, Plan, Result, StepError, judge, main, run_with
from opsmith._torch_release import MINIMUM_TORCH, release_of

GOOD, FAILED = Result("2.10.0", passed=1200, skipped=3, seconds=61), Result("2.11.0", passed=5, failed=2, seconds=7.4)
BROKEN = Result("2.12.1", problem="`--quiet torch==2.12.1` failed")


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(each_torch, "OUTPUT", tmp_path)
    return tmp_path


def test_every_release_since_the_oldest_is_run_once() -> None:
    releases = [release_of(version) for version in VERSIONS]
    assert releases == [(2, minor) for minor in range(MINIMUM_TORCH[1], MINIMUM_TORCH[1] + len(VERSIONS))]


@pytest.mark.usefixtures("output")
@pytest.mark.parametrize(("results", "code"), [([GOOD], 0), ([FAILED, GOOD], 1), ([BROKEN, GOOD], 1)])
def test_all_versions_are_run_and_the_table_has_them(results, code, monkeypatch, capsys) -> None:
    rows = iter(results)
    monkeypatch.setattr(each_torch, "run_with", lambda version, plan: next(rows))
    assert main([result.torch for result in results]) == code
    printed = capsys.readouterr().out
    assert "| torch | passed | failed | skipped | seconds | |" in printed
    assert "| 2.10.0 | 1,200 | 0 | 3 | 61 |  |" in printed
    assert ("| 2.11.0 | 5 | 2 | 0 | 7 |  |" in printed) == (FAILED in results)
    assert ("`--quiet torch==2.12.1` failed |" in printed) == (BROKEN in results)


@pytest.mark.parametrize(("version", "is_kept"), [("2.13.0", True), ("2.13", True), ("2.1", False), ("2.13.1", False)])
def test_the_tests_run_with_the_torch_asked_for(output, monkeypatch, version, is_kept) -> None:
    done = subprocess.CompletedProcess([], 0, stdout="2.13.0+cpu\n")
    monkeypatch.setattr(each_torch, "call", lambda *arguments: 0)
    monkeypatch.setattr(each_torch.subprocess, "run", lambda *arguments, **keywords: done)
    problem = run_with(version, Plan()).problem
    assert ("pip has replaced" in problem) != is_kept


def test_a_version_that_cannot_be_had_is_a_result_and_its_folder_goes(output, monkeypatch) -> None:
    monkeypatch.setattr(each_torch, "call", lambda command, *others: int("pip" in command))
    result = run_with("2.99.0", Plan())
    assert not result.is_good
    assert "torch==2.99.0` failed" in result.problem
    assert [path.name for path in output.iterdir()] == ["2.99.0.log"]


REPORT = '<testsuites><testsuite tests="9" failures="1" errors="1" skipped="3"/></testsuites>'


@pytest.mark.parametrize(
    ("text", "status", "counts", "problem"),
    [
        (REPORT, 1, (4, 2, 3), ""),
        ('<testsuite tests="2" failures="0" errors="0" skipped="0"/>', 0, (2, 0, 0), ""),
        ('<testsuite tests="2" failures="0" errors="0" skipped="0"/>', 3, (2, 0, 0), "pytest ended with 3"),
        ("<testsuites>", -11, (0, 0, 0), "pytest ended with -11 and without a report"),
        ('<testsuite tests="0" failures="0" errors="0" skipped="0"/>', 5, (0, 0, 0), "pytest ended with 5"),
    ],
)
def test_counts_come_from_pytests_report(tmp_path, text, status, counts, problem) -> None:
    (tmp_path / "report.xml").write_text(text)
    result = judge("2.15.0", tmp_path / "report.xml", status, 1.0)
    assert (result.passed, result.failed, result.skipped) == counts
    assert result.problem == problem
    assert result.is_good == (status == 0)


def test_what_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    program = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    with (tmp_path / "log").open("w") as log, pytest.raises(StepError, match="did not end within 1 s"):
        each_torch.call([sys.executable, "-c", program], tmp_path, log.fileno(), 1.0)
    pid = int((tmp_path / "log").read_text())
    deadline = time.monotonic() + 10
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() not in {"", "Z"}


def test_neither_the_users_paths_nor_his_store_reach_the_tests(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    program = "import os; print(os.environ.get('PYTHONPATH'), os.environ['OPSMITH_TEST_CACHE'])"
    with (tmp_path / "log").open("w") as log:
        assert each_torch.call([sys.executable, "-c", program], tmp_path, log.fileno(), 60) == 0
    assert (tmp_path / "log").read_text().split() == ["None", os.fspath(tmp_path / "cache")]
