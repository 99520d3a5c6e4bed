"""`opsmith demo` from end to end, and without what it would like to have."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from compilers import compiler_with_bridge
from opsmith.cli.demo import command
from opsmith.demo import builds
from opsmith.errors import OpsmithError, ToolchainError
from opsmith.report.demo.screen import DemoScreen

needs_extras = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None,
    reason="needs the extra `demo`",
)


@needs_extras
@pytest.mark.compile
@pytest.mark.slow("a whole demo")
def test_a_quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", compiler_with_bridge(tmp_path))
    result = CliRunner().invoke(command, ["--quick", "--json", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["failures"] == []
    assert [build["builder"] for build in content["builds"]] == ["jit", "setuptools", "cmake"]
    built = [build for build in content["builds"] if build["left_out"] is None]
    assert len(built) >= 2
    assert all(Path(build["library"]).stat().st_size == build["size_bytes"] for build in built)
    assert all(tally["numbers"] > 0 == tally["differing"] for tally in content["agreement"]["tallies"])
    assert [check["ok"] for check in content["checks"]] == [True, True]
    timed = {(t["phase"], t["competitor"]) for report in content["benchmarks"] for t in report["timings"]}
    assert timed == {(phase, name) for phase in ("forward", "backward") for name in ("opsmith", "eager")}
    assert [len(run["losses"]) for run in content["runs"]] == [3] * len(content["runs"])
    assert "a quick run: the test accuracy is not compared with the 95% of a full run" in result.stderr
    assert {"report.html", "report.md", "results.json"} <= {file.name for file in tmp_path.iterdir()}
    assert not list(tmp_path.glob("lib/*/work"))


def test_a_missing_extra_gets_one_clear_error(monkeypatch: pytest.MonkeyPatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else found(name))
    with pytest.raises(OpsmithError, match=r'^opsmith demo needs scikit-learn: pip install "opsmith\[demo\]"$'):
        CliRunner().invoke(command, [], catch_exceptions=False)


def refuse(group, builder, request, watcher):
    raise ToolchainError("CMake is not installed. Get it so")


def test_a_builder_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(builds, "build_group", refuse)
    text = io.StringIO()
    build = builds.build_one(None, "cmake", ["cpu"], tmp_path, DemoScreen(Console(file=text)))
    assert build.left_out == "CMake is not installed. Get it so"
    assert "left out: CMake is not installed. Get it so" in text.getvalue()


def test_without_a_compiler_there_is_no_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(builds, "build_group", refuse)
    with pytest.raises(ToolchainError):
        builds.build_one(None, "jit", ["cpu"], tmp_path, DemoScreen(Console(file=io.StringIO())))


def test_setuptools_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    build = builds.build_one(None, "setuptools", ["cpu"], tmp_path, DemoScreen(Console(file=io.StringIO())))
    assert build.left_out is not None and 'pip install "opsmith[setuptools]"' in build.left_out


def test_no_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    text = io.StringIO()
    screen = DemoScreen(Console(file=text))
    screen.section("A heading")
    with screen.step("working", 2) as step:
        step.advance(1, 2, "not worth a line")
        step.advance(2, 2, "worth a line", is_milestone=True)
    screen.line("✓ done")
    assert text.getvalue() == "\n1  A heading\n   worth a line\n   ✓ done\n"


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = io.StringIO()
    DemoScreen(Console(file=text, force_terminal=True)).line("✓ done")
    assert "\x1b[32m" not in text.getvalue()
