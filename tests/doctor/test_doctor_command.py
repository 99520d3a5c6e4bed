"""`opsmith doctor`: what works side by side, what does not with its remedy, and whether all is well as exit code."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from opsmith.cli.doctor import command
from opsmith.doctor.examine import examine
from opsmith.doctor.finding import ok, problem, warning
from opsmith.doctor.screen import show

FINDINGS = (
    ok("torch", "torch 2.13.0 (CPU)", "built with the new C++ string ABI"),
    warning("cache", "cache: 4.9 of 5.0 GB", "/c", "opsmith cache prune"),
    ok("ninja", "ninja 1.13", "/bin/ninja"),
    problem("host compiler", "C++ compiler: none", "a sentence " * 20, "apt-get install g++"),
)


def test_the_screen():
    lines = list(show(FINDINGS))
    assert lines[0] == "  ✓ torch 2.13.0 (CPU)    ✓ ninja 1.13"
    assert lines[1] == "  ✗ C++ compiler: none"
    assert all(line.startswith("    ") and len(line) <= 120 for line in lines[2:4])
    assert lines[-3:] == ["  ! cache: 4.9 of 5.0 GB", "    /c", "      opsmith cache prune"]


def test_details_are_shown_on_request():
    assert "    /bin/ninja" in list(show(FINDINGS, details=True))


def test_a_terminal_without_unicode_gets_plain_marks():
    assert next(show(FINDINGS, encoding="ascii")).startswith("  + torch")


@pytest.mark.parametrize(("findings", "status"), [(FINDINGS, 1), (FINDINGS[:3], 0)])
def test_the_exit_code_tells_whether_something_is_broken(monkeypatch, findings, status):
    monkeypatch.setattr("opsmith.cli.doctor.examine", lambda *, with_build: findings)
    assert CliRunner().invoke(command).exit_code == status
    assert CliRunner().invoke(command, ["--json"]).exit_code == status


def test_json_has_every_finding(monkeypatch):
    monkeypatch.setattr("opsmith.cli.doctor.examine", lambda *, with_build: FINDINGS)
    content = json.loads(CliRunner().invoke(command, ["--json"]).output)
    assert [entry["status"] for entry in content] == ["ok", "warning", "ok", "problem"]
    assert set(content[0]) == {"topic", "status", "title", "detail", "remedy"}


@pytest.mark.compile
def test_this_machine_is_examined():
    findings = examine()
    topics = {finding.topic for finding in findings}
    assert {"torch", "host compiler", "ninja", "bridge", "cache", "memory"} <= topics
    assert not [finding for finding in findings if finding.topic == "host compiler" and finding.status != "ok"]
    for finding in findings:
        assert finding.status == "ok" or finding.remedy, finding
        assert "check failed" not in finding.title, finding


@pytest.mark.slow("examines the whole machine")
@pytest.mark.compile
def test_a_topic_that_fails_is_a_finding(monkeypatch):
    monkeypatch.setattr("opsmith.doctor.memory.find_memory_state", lambda: 1 / 0)
    found = [finding for finding in examine() if finding.topic == "memory"]
    assert found[0].title == "memory: check failed"
    assert "ZeroDivisionError" in found[0].detail


@pytest.mark.compile
@pytest.mark.nightly("builds with each compiler of the machine; make test has one that fails, and all other builds")
def test_a_sample_build_builds_and_calls_an_operator():
    found = [finding for finding in examine(with_build=True) if finding.topic == "trial"]
    assert re.fullmatch(r"cpu: built in \d+\.\d s, called", found[0].title), found


@pytest.mark.slow("builds")
@pytest.mark.compile
def test_a_sample_build_that_fails_says_why(monkeypatch):
    from opsmith.doctor.sample_build import try_builds

    monkeypatch.setenv("CXX", "g++ -no-such-flag")
    found = try_builds(cuda=False, has_gpu=False)
    assert found[0].status == "problem"
    assert "no-such-flag" in found[0].detail
