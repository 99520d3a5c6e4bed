"""`opsmith tune` measures what fits, writes a list that a definition can have, and keeps what else is in the file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from opsmith.benchmark.result import Timing
from opsmith.benchmark.statistics import Interval
from opsmith.cli import tune
from opsmith.spec.launch import parse_launch
from opsmith.tuning import measure

DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor

CONFIGS = [
    {"BLOCK": 256, "num_warps": 1, "when": "N <= BLOCK"},
    {"BLOCK": 1024, "num_warps": 4, "when": "N <= BLOCK"},
    {"BLOCK": 1024, "num_warps": 8, "when": "N <= BLOCK"},
]


@opsmith.op(cuda=opsmith.triton("kernels.py:double", grid="M", configs=CONFIGS), outputs="y")
def double(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return 2 * x


@opsmith.op(cuda="plain.cu")
def plain(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "doubled.py").write_text(DEFINITION)
    (tmp_path / "kernels.py").write_text("")
    (tmp_path / "plain.cu").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("opsmith.cli.tune.refuse_missing_gpu", lambda device: None)
    monkeypatch.setattr("opsmith.benchmark.api.bench_subject", lambda op, options: (_subject(op), "cuda"))
    monkeypatch.setattr(measure, "build", lambda definition, phase, contenders: [object() for _ in contenders])
    return tmp_path


def _subject(op: Any) -> Any:
    return SimpleNamespace(name=op.definition.qualified_name, operator=op)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stand in for the benchmark; return what it was asked."""
    asked: list[dict[str, Any]] = []

    def run_bench(subject: Any, device: str, options: Any, extra: Any) -> Any:
        (size,) = options.sizes
        asked.append({"size": dict(size), "contenders": [each.name for each in extra], "phase": options.phases})
        times = {"opsmith": 5e-6, "eager": 9e-6, **{each.name: _seconds(each.name, size["N"]) for each in extra}}
        timings = [
            Timing("", "float32", "forward", name, Interval(taken, taken, taken) if taken else None,
                   error="" if taken else "wrong result: output 0 is off by 1")
            for name, taken in times.items()
        ]  # fmt: skip
        return SimpleNamespace(timings=timings, machine=SimpleNamespace(name="a GPU"))

    monkeypatch.setattr(measure, "run_bench", run_bench)
    return asked


def _seconds(number: str, n: int) -> float:
    return {"0": 1e-6, "1": 4e-6 if n < 500 else 2e-6, "2": 3e-6}[number] if n != 7 else 0.0


def run(*words: str) -> Any:
    return CliRunner().invoke(tune.command, words)


def test_a_list_for_the_sizes_is_written(project: Path, timed: list[dict[str, Any]]):
    done = run("doubled::double", "--size", "M=8,N=100", "--size", "M=8,N=1000")
    assert done.exit_code == 0, done.output
    assert [each["contenders"] for each in timed] == [["0", "1", "2"], ["1", "2"]]
    assert "BLOCK=256 num_warps=1" in done.output and "✓ 1.00 us" in done.output
    assert "5.00x as fast as what is chosen now" in done.output
    assert "never the best, so they need not be compiled: BLOCK=1024 num_warps=8" in done.output
    text = (project / "tuned.py").read_text()
    scope: dict[str, Any] = {}
    exec(text, scope)
    assert scope["DOUBLE"] == [
        {"BLOCK": 256, "num_warps": 1, "when": "N <= BLOCK and N <= 316"},
        {"BLOCK": 1024, "num_warps": 4, "when": "N <= BLOCK and N > 316"},
    ]
    assert "# a GPU, torch" in text
    configs = [*scope["DOUBLE"], {"BLOCK": 1024, "num_warps": 8, "when": "N <= BLOCK"}]
    launch = parse_launch("test", "M", configs, {})
    assert [launch.configs.index(launch.choose({"N": n})) for n in (1, 256, 317, 1024)] == [0, 0, 1, 1]


def test_other_lists_of_the_file_are_kept(project: Path, timed: list[dict[str, Any]]):
    (project / "own.py").write_text('# of another day\nOTHER = [\n    {"A": 1, "when": "N > 3"},\n]\nDOUBLE = []\n')
    done = run("doubled::double", "--size", "M=8,N=1000", "-o", "own.py", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["configurations"] == [{"BLOCK": 1024, "num_warps": 4, "when": "N <= BLOCK"}]
    assert found["measured"][0]["seconds"] == {
        "BLOCK=1024 num_warps=4": {"float32": 2e-6},
        "BLOCK=1024 num_warps=8": {"float32": 3e-6},
    }
    text = (project / "own.py").read_text()
    assert '# of another day\nOTHER = [\n    {"A": 1, "when": "N > 3"},\n]\n' in text
    assert text.count("DOUBLE") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["doubled::double"], "name the sizes to choose for: --size M=8192,N=1024"),
        (
            ["doubled::double", "--size", "M=1,N=5", "--size", "N=5"],
            "give every --size the same names; M is not in all",
        ),
        (["doubled::plain", "--size", "N=5"], "plain has no forward kernel with a launch"),
        (
            ["doubled::double", "--size", "M=1,N=5", "--phase", "backward"],
            "double has no backward kernel with a launch",
        ),
        (["doubled", "--size", "N=5"], "is for one operator"),
        (["doubled::double", "--size", "M=1,N=5000"], "no configuration of double is for M 1, N 5000"),
        (["doubled::double", "--size", "M=1,N=7"], "no configuration of double gives right results: wrong result"),
        (["doubled::double", "--size", "M=1,N=5", "-o", "doubled.py"], "has more than lists of configurations"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str, project: Path, timed: list[dict[str, Any]]):
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert not (project / "tuned.py").exists()
    assert (project / "doubled.py").read_text() == DEFINITION


def test_one_configuration_is_nothing_to_choose_from():
    from opsmith.errors import ArgumentError
    from opsmith.tuning.contenders import contenders_of

    launch = parse_launch("test", "M", [{"BLOCK": 1, "when": "N > 1"}, {"BLOCK": 1}], {})
    with pytest.raises(ArgumentError, match="there is one configuration"):
        contenders_of(launch)


def test_conditions_are_those_of_the_list_and_not_of_an_earlier_tuning():
    from opsmith.tuning.contenders import contenders_of

    configs = [{"BLOCK": 8, "when": "N == 3"}, {"BLOCK": 8, "when": "N <= BLOCK"}, {"BLOCK": 16}]
    found = contenders_of(parse_launch("test", "M", configs, {}))
    assert [(each.label, each.config.when and each.config.when.text) for each in found] == [
        ("BLOCK=8", "N <= BLOCK"),
        ("BLOCK=16", None),
    ]
