"""suite.toml lists benchmarks that exist, and run.py runs them all, even after a failure."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
RUN = BENCHMARKS / "run.py"

# Listed, and without results so far.
NOT_MEASURED = {
    "build_time_gpu.json",
}


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("benchmarks_run", RUN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def rows(run):
    return [row for rows in run.read_suite().values() for row in rows]


def option(row, name: str) -> list[str]:
    return [value for key, value in zip(row.arguments, row.arguments[1:], strict=False) if key == name]


def test_every_program_and_every_results_file_exists(rows):
    assert len(rows) > 30
    for row in rows:
        if row.program:
            assert (BENCHMARKS / row.program).is_file(), row
        assert row.results.is_file() != (row.results.name in NOT_MEASURED), row
    names = [row.results.name for row in rows]
    assert len(set(names)) == len(names)


def test_every_operator_exists(rows):
    from opsmith.runtime.operator import Operator

    for row in rows:
        if row.operator:
            module, _, name = row.operator.partition("::")
            found = vars(importlib.import_module(module))
            operators = [value for key, value in found.items() if isinstance(value, Operator) and name in ("", key)]
            assert operators, row


def test_every_set_of_examples_exists(rows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    named = {example for row in rows for example in option(row, "--examples")}
    assert len(named) > 5
    for example in named:
        module, _, function = example.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), example


def test_every_argument_is_an_option_of_what_gets_it(rows):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-m", "opsmith", "bench", "--help"]
    shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    for row in rows:
        known = (BENCHMARKS / row.program).read_text(encoding="utf-8") if row.program else shown
        given = {*row.arguments, "--output" if row.program else "--json"}
        missing = [name for name in given if name.startswith("--") and name not in known]
        assert missing == [], row


def test_the_commands_name_program_device_arguments_and_results():
    done = subprocess.run(
        [sys.executable, str(RUN), "--device", "cuda", "--dry-run", "nms", "add2"],
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    program, operator = (shlex.split(line) for line in done.stdout.splitlines())
    assert program == (
        ["python", "benchmarks/nms.py", "--device", "cuda", "--output", "benchmarks/results/nms_gpu.json"]
    )
    assert operator[:7] == ["python", "-m", "opsmith", "bench", "opsmith.ops.add2", "--device", "cuda"]
    assert operator[-2:] == ["--json", "benchmarks/results/add2_gpu.json"]
    assert "shape=268435456" in operator  # from the arguments that add2 and sigmoid share


def test_what_follows_a_failure_still_runs(run, tmp_path, monkeypatch, capsys):
    """A failing program and one that leaves a file: both are told, and the exit code is 1."""
    left = tmp_path / "left"
    (tmp_path / "failing.py").write_text("raise SystemExit(3)")
    (tmp_path / "writing.py").write_text(f"open({str(left)!r}, 'w').write('here')")
    rows = tuple(
        run.Benchmark(name, "cpu", ROOT / "build" / "none.json", program=str(tmp_path / f"{name}.py"))
        for name in ("failing", "writing")
    )
    monkeypatch.setattr(run, "read_suite", lambda: {"cpu": rows})
    monkeypatch.setattr(sys, "argv", ["run.py"])
    assert run.main() == 1
    assert left.read_text() == "here"
    printed = capsys.readouterr()
    assert "[2/2] writing" in printed.out
    assert printed.err == "1 of 2 failed: failing\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[cpu.a]\nprogram = "a.py"\noperator = "b"\nresults = "a.json"', "either `operator` or `program`"),
        ('[cpu.a]\nprogram = "a.py"', "needs `results`"),
        ('[cpu.a]\nprogram = "a.py"\nresults = "a.json"\nseconds = "9"', "unknown keys: seconds"),
        ('[cpu.a]\nprogram = "a.py"\nresults = "a.json"\narguments = "{b}"', "uses 'b'"),
        ('[tpu.a]\nprogram = "a.py"\nresults = "a.json"', "tpu is not one of cpu, cuda"),
    ],
)
def test_a_wrong_row_is_named(run, tmp_path, text, message):
    file = tmp_path / "suite.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        run.read_suite(file)
