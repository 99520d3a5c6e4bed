"""Without ninja a plan's steps run all the same: in order, side by side, once, and stopped with the build."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from opsmith.build import ninja
from opsmith.build.ninja import run_plan, run_steps
from opsmith.build.plan import Plan, Step
from opsmith.build.watcher import Progress
from opsmith.errors import CompileError, ToolchainError
from opsmith.spec.extension import ExistingSources, Source


def write(output: str, *inputs: str, then: str = "") -> Step:
    """Return a step that notes its start and writes a file."""
    copied = " ".join(inputs) or "/dev/null"
    script = f"echo {output} >> log; {then or ':'}; cat {copied} > {output}; echo {output} >> {output}"
    return Step(output, ("sh", "-c", script), inputs, output)


def plan_of(*steps: Step) -> Plan:
    source = Source("a.cpp", "cxx", "full", text="")
    extension = ExistingSources("x", Path(), (source,), ("cpu",), library=steps[-1].output)
    return Plan(extension, {}, steps, steps[-1].output, {})


@pytest.fixture(autouse=True)
def no_ninja(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_ninja() -> Path:
        raise ToolchainError("ninja was not found")

    monkeypatch.setattr(ninja, "find_ninja", find_ninja)


def test_steps_run_after_what_they_need_and_each_once(tmp_path: Path) -> None:
    plan = plan_of(write("a.o"), write("b.o"), write("lib.so", "a.o", "b.o"))
    seen: list[Progress] = []
    assert run_plan(plan, tmp_path, jobs=2, on_progress=seen.append) == tmp_path / "lib.so"
    assert (tmp_path / "lib.so").read_text() == "a.o\nb.o\nlib.so\n"
    assert [(progress.done, progress.total) for progress in seen] == [(1, 3), (2, 3), (3, 3)]
    # Another round makes what has another command, and what comes of it.
    again = plan_of(write("a.o"), write("b.o", then="true"), write("lib.so", "a.o", "b.o"))
    assert run_steps(again, tmp_path, jobs=1) is None
    assert (tmp_path / "log").read_text().split()[3:] == ["b.o", "lib.so"]


def test_failure_reads_as_ninjas_does(tmp_path: Path) -> None:
    bad = write("b.o", then="echo 'b.cpp:3:1: error: no' >&2; exit 1")
    plan = plan_of(write("a.o"), bad, write("lib.so", "a.o", "b.o"))
    output = run_steps(plan, tmp_path, jobs=1)
    assert output is not None
    assert output.splitlines()[0] == "FAILED: b.o"
    assert not (tmp_path / "lib.so").exists()
    with pytest.raises(CompileError, match=r"b\.cpp:3:1: error: no"):
        run_plan(plan, tmp_path, jobs=1)
    assert (tmp_path / "log").read_text().split() == ["a.o", "b.o", "b.o"], "what was made is not made again"


def test_after_a_failure_nothing_is_started(tmp_path: Path) -> None:
    sources = [write("a.o", then="exit 1"), write("b.o"), write("c.o")]
    assert run_steps(plan_of(*sources, write("lib.so", "a.o", "b.o", "c.o")), tmp_path, jobs=1)
    assert (tmp_path / "log").read_text().split() == ["a.o"]


def test_program_that_is_missing_is_named(tmp_path: Path) -> None:
    step = Step("lib.so", ("no-such-compiler", "-c"), (), "lib.so")
    with pytest.raises(CompileError, match="no-such-compiler: No such file"):
        run_plan(plan_of(step), tmp_path, jobs=1)


def test_interrupted_build_leaves_no_compiler_behind(tmp_path: Path) -> None:
    """Ctrl-C is raised in this thread, while the steps run in others."""
    plan = plan_of(
        write("a.o"), write("b.o", then="(sleep 40; echo late >> log) & wait"), write("lib.so", "a.o", "b.o")
    )

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    started_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_steps(plan, tmp_path, jobs=2, on_progress=interrupt)
    assert time.monotonic() - started_s < 30
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("opsmith-step")]
