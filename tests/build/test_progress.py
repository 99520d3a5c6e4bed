"""What a build says of itself: what runs, how much is done, and who else is at it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build.ninja import run_plan
from opsmith.build.plan import Plan, Step
from opsmith.build.progress import State, find_holder, running_steps
from opsmith.spec.extension import Extension


def make_plan(steps: list[Step], library: str = "link.out") -> Plan:
    return Plan(Extension("demo", Path(), (), ("cpu",)), {}, tuple(steps), library, {})


def step(name: str, command: str, *inputs: str) -> Step:
    return Step(name, ("sh", "-c", command), inputs, f"{name}.out")


@pytest.fixture
def three() -> Plan:
    return make_plan([step("a", ":"), step("b", ":"), step("c", ":"), step("link", ":", "a.out", "b.out", "c.out")])


def test_as_many_steps_run_as_there_are_jobs_and_the_link_waits_for_all(three):
    assert [item.description for item in running_steps(three, [], 2)] == ["a", "b"]
    assert [item.description for item in running_steps(three, ["b"], 2)] == ["a", "c"]
    assert [item.description for item in running_steps(three, ["b", "a", "c"], 2)] == ["link"]
    assert running_steps(three, ["b", "a", "c", "link"], 2) == []


def test_two_steps_of_one_name_are_told_apart_by_their_number(three):
    same = replace(three, steps=(three.steps[0], replace(three.steps[1], description="a"), *three.steps[2:]))
    assert [item.output for item in running_steps(same, ["a"], 3)] == ["b.out", "c.out"]


def test_what_is_said_to_run_is_what_ninja_runs(tmp_path):
    # Each step leaves a mark while it runs; a watcher compares at moments when nothing changes.
    def marked(name: str, seconds: float, *inputs: str) -> Step:
        return step(name, f"touch {name}.runs; sleep {seconds}; rm {name}.runs; touch {name}.out", *inputs)

    plan = make_plan(
        [marked("a", 0.4), marked("b", 1.2), marked("c", 0.4), marked("link", 0.4, "a.out", "b.out", "c.out")]
    )
    finished: list[str] = []
    thread = threading.Thread(
        target=run_plan, args=(plan, tmp_path), kwargs={"jobs": 2, "on_progress": lambda p: finished.append(p.step)}
    )
    thread.start()
    seen: dict[tuple[str, ...], list[set[str]]] = {}
    while thread.is_alive():
        before = tuple(finished)
        real = {path.stem for path in tmp_path.glob("*.runs")}
        time.sleep(0.05)
        if before == tuple(finished) and real:
            seen.setdefault(before, []).append(real)
    thread.join()
    assert len(seen) == 4
    for before, states in seen.items():
        said = {item.description for item in running_steps(plan, list(before), 2)}
        # A step has taken its mark away a moment before ninja tells of its end, and makes it a moment after its start.
        assert all(real <= said for real in states)
        assert said in states


def test_the_line_names_what_compiles_and_how_much_is_done(three):
    state = State("lltm", jobs=2)
    state.start(three)
    assert state.line().startswith("building lltm  [0/4]  a, b  0.")
    state.finished += ["a"]
    assert state.line().startswith("building lltm  [1/4]  b, c  0.")
    many = State("lltm", jobs=8)
    many.start(three)
    assert "  a, b and 1 more  " in many.line()


def test_the_line_of_a_wait_names_the_process_that_has_the_lock(three, tmp_path):
    lock = tmp_path / "key.lock"
    code = (
        "import sys; from filelock import FileLock\n"
        f"with FileLock({str(lock)!r}):\n    print('held', flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        state = State("lltm", jobs=1, lock=lock)
        state.wait(3.2)
        known = Path("/proc/locks").exists()
        who = f"process {process.pid}" if known else "another process"
        assert state.line() == f"waiting for lltm, which {who} is building  3s"
        process.communicate()
    assert find_holder(lock) is None
    assert find_holder(tmp_path / "none") is None
