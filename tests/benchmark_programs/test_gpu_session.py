"""A session on a machine with GPUs keeps what its steps say, however it ends. None of this needs a GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "gpu_session.py"


def session(folder: Path, plan: str, *options: str, gpus: int = 2) -> subprocess.Popen[str]:
    (folder / "plan.toml").write_text(plan)
    command = [sys.executable, str(PROGRAM), str(folder / "plan.toml"), "--output", str(folder), "--gpus", str(gpus)]
    return subprocess.Popen([*command, *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def kept(folder: Path) -> dict[str, str]:
    with tarfile.open(folder / "session.tgz") as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {Path(one.name).name: archive.extractfile(one).read().decode() for one in files}  # type: ignore[union-attr]


def step(name: str, run: str, seconds: float = 20, more: str = "") -> str:
    return f'[[step]]\nname = "{name}"\nrun = """{run}"""\nseconds = {seconds}\n{more}\n'


def test_steps_have_gpus_of_their_own(tmp_path: Path) -> None:
    plan = "".join(step(name, "echo on $CUDA_VISIBLE_DEVICES; sleep 1") for name in "abc")
    plan += step("both", "echo on $CUDA_VISIBLE_DEVICES", more="gpus = 2")
    process = session(tmp_path, plan)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    found = kept(tmp_path)
    assert {found["a.txt"], found["b.txt"]} == {"on 0\n", "on 1\n"}
    assert found["c.txt"] in {"on 0\n", "on 1\n"}
    assert sorted(found["both.txt"].removeprefix("on ").strip().split(",")) == ["0", "1"]


def test_what_fails_or_takes_too_long_is_said_and_kept(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    old = tmp_path / "old.json"
    old.write_text("old")
    os.utime(old, (time.time() - 60,) * 2)
    plan = step("bad", "echo so far; exit 3") + step("long", "echo begun; sleep 60", 1)
    plan += step("good", f"echo new > {result}", more=f'keep = ["{result}", "{old}"]')
    process = session(tmp_path, plan)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "bad: failed: status 3" in said
    assert "long: cut off after 1 s" in said
    found = kept(tmp_path)
    assert (found["bad.txt"], found["long.txt"], found["result.json"]) == ("so far\n", "begun\n", "new\n")
    assert "old.json" not in found  # it was there before


def test_a_session_that_is_killed_has_kept_what_had_ended(tmp_path: Path) -> None:
    process = session(tmp_path, step("first", "echo first") + step("second", "sleep 300", 600))
    assert process.stdout is not None
    assert "first: done" in process.stdout.readline()
    for _ in range(100):
        if (tmp_path / "session.tgz").exists():
            break
        time.sleep(0.1)
    process.kill()
    process.communicate()
    subprocess.run(["pkill", "-f", "sleep 300"], check=False)
    assert kept(tmp_path)["first.txt"] == "first\n"


def test_some_steps_can_be_chosen(tmp_path: Path) -> None:
    plan = step("one", "echo 1") + step("two", "echo 2")
    assert session(tmp_path, plan, "--only", "two").communicate(timeout=30)[0].endswith("two: done\n")
    assert set(kept(tmp_path)) == {"two.txt"}
    assert "has no step 'three'; there are one, two" in session(tmp_path, plan, "--only", "three").communicate()[0]


def test_the_time_of_a_session_ends_it(tmp_path: Path) -> None:
    plan = step("one", "sleep 60", 100) + step("two", "sleep 60", 100) + step("three", "true", 1)
    process = session(tmp_path, plan, "--seconds", "2")
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.count("cut off: the session's time was over") == 2
    assert set(kept(tmp_path)) == {"one.txt", "two.txt"}


@pytest.mark.parametrize("plan", ["", "[[step]]\nname = 'a'\n", "[[step]]\nname = 'a'\nrun = 'b'\nsecond = 3\n", "["])
def test_a_plan_that_does_not_fit_is_refused(plan: str, tmp_path: Path) -> None:
    process = session(tmp_path, plan)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "is no plan of steps" in said


def test_the_plan_that_is_there_names_programs_that_exist() -> None:
    sys.path.insert(0, str(PROGRAM.parent))
    try:
        from gpu_session import read_plan
    finally:
        sys.path.pop(0)
    for one in read_plan(PROGRAM.with_suffix(".toml")):
        words = [word for word in one.run.split() if word not in one.keep]
        paths = [word for word in words if "/" in word and not word[0].isdigit()]  # 1/2 is a part
        modules = [word.partition("::")[0] for word in words if word.startswith("opsmith.")]
        assert paths or modules, f"{one.name} runs nothing of this repository"
        assert all((ROOT / path).exists() for path in paths), one
        assert all(importlib.util.find_spec(module) for module in modules), one
