"""Mutants of a small operator: built in copies, tried in children that may crash or hang, and judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from kit_mutate.operators import doubled, shifted

import opsmith
from opsmith.checker.mutate.build import Builder
from opsmith.checker.mutate.mutants import Mutant
from opsmith.checker.mutate.options import MutateOptions
from opsmith.checker.mutate.reasons import UNREACHED, why_it_survived
from opsmith.checker.mutate.report import MutationReport
from opsmith.checker.mutate.run import mutate_operator
from opsmith.checker.mutate.trial import Limits, Trial, try_library
from opsmith.cli.check import command
from opsmith.errors import ArgumentError, CheckError
from opsmith.runtime.operator import operators_of

pytestmark = pytest.mark.compile

KIT = Path(__file__).parents[1] / "kit_mutate"
FILES = (KIT / "kernels.cpp", KIT / "helpers.h")
TRIAL = Trial(shifted, "cpu", dtypes=("float32",), properties=("value", "empty"), left_out=frozenset())


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    definitions = [operator.definition for operator in operators_of(shifted.definition.module)]
    made = Builder(definitions, "cpu", tmp_path_factory.mktemp("mutants"))
    made.prepare_quick(FILES[:1])
    return made


def changed(before: str, after: str, file: Path = FILES[0]) -> dict[Path, str]:
    text = file.read_text()
    assert text.count(before) == 1
    return {file: text.replace(before, after)}


def test_the_headers_beside_are_found_and_no_others(builder: Builder):
    assert builder.sources == FILES[:1]
    assert builder.headers == FILES[1:]


def test_the_same_code_is_recognised_whatever_the_text(builder: Builder):
    other = changed("T(2 * compute_t<T>(x(i)))", "T(compute_t<T>(x(i)) * (1 + 1))  /* other words */")
    assert builder.build("same-quick", other, quick=True).is_original
    built = builder.build("same", other)
    assert built.is_original
    assert built.digest == builder.original.digest


def test_a_mutant_is_built_in_a_copy(builder: Builder):
    before = [file.read_bytes() for file in FILES]
    built = builder.build("other", changed("number <= C(0) ? C(0)", "number <= C(1) ? C(0)", FILES[1]), quick=True)
    assert built.library is not None
    assert not built.is_original
    assert [file.read_bytes() for file in FILES] == before
    assert sorted(file.name for file in KIT.iterdir() if file.suffix in (".cpp", ".h", ".so", ".o")) == [
        "helpers.h",
        "kernels.cpp",
    ]
    seen = try_library(TRIAL, built.library)
    assert seen.named == "value, float32"
    assert not shifted.is_loaded


def test_what_does_not_compile_says_why(builder: Builder):
    built = builder.build("broken", changed("positive(sum)", "positive(total)"), quick=True)
    assert built.library is None
    assert "total" in built.error


def test_a_crash_and_a_hang_are_found_in_bounded_time(builder: Builder):
    # Volatile, because a compiler may leave out what never ends, and what is not allowed.
    crash = builder.build(
        "crash", changed("const compute_t<T> sum", "*(volatile int*)nullptr = 1; const compute_t<T> sum")
    )
    hang = builder.build(
        "hang", changed("const compute_t<T> sum", "for (volatile int k = 0; k == 0;) {} const compute_t<T> sum")
    )
    assert crash.library is not None
    assert hang.library is not None
    found = try_library(TRIAL, crash.library)
    assert (found.named, found.message) == ("value, float32", "it crashes: a segmentation fault")
    found = try_library(replace(TRIAL, limits=Limits(silence_s=1.0)), hang.library)
    assert (found.named, found.message) == ("value, float32", "it hangs")


def test_memory_without_end_is_refused(builder: Builder):
    greedy = changed(
        "const compute_t<T> sum", "for (volatile long n = 1 << 20;; n = n + n) new char[n](); const compute_t<T> sum"
    )
    built = builder.build("greedy", greedy)
    assert built.library is not None
    found = try_library(TRIAL, built.library)
    assert found.named == "value, float32"


@pytest.mark.slow("builds and checks mutants")
def test_a_report_of_mutants(builder: Builder):
    options = MutateOptions(
        mutants=4, headers=True, dtypes="float32", properties=("value", "gradient", "writes outside")
    )
    report = mutate_operator(shifted, options)
    assert report.operator == "kit_mutate.shifted"
    assert len(report.verdicts) == 4 < report.possible
    assert {verdict.fate for verdict in report.verdicts} <= {"not compiled", "same code", "found"}, str(report)
    assert report.score == 100
    report.raise_if_below(100)
    # What another operator's kernel alone has is not this one's.
    assert "doubled" not in {verdict.mutant.function for verdict in report.verdicts}
    found = json.loads(json.dumps(report.as_json()))
    assert found["found"] + found["same_code"] + found["not_compiled"] == 4
    assert not shifted.is_loaded


@pytest.mark.slow("builds and checks mutants")
def test_a_check_that_looks_at_nothing_finds_nothing():
    options = MutateOptions(mutants=2, dtypes="float32", properties="empty")
    report = mutate_operator(doubled, options)
    assert report.score == 0
    (survivor, *_) = report.survivors
    assert survivor.mutant.function == "doubled"
    assert survivor.why
    with pytest.raises(CheckError, match="0 % of the mutants were found, not 90 %"):
        report.raise_if_below(90)
    text = str(report)
    assert f"survived: kernels.cpp:{survivor.mutant.line}" in text
    assert f"    + {survivor.mutant.after_line.strip()}" in text


def test_what_no_input_reaches_is_said_to_be_that(builder: Builder):
    # With inputs of no elements the body of the loop never runs.
    before = "const compute_t<T> sum"
    start = FILES[0].read_text().index(before)
    built = builder.build("unreached", changed("compute_t<T>(shift);", "compute_t<T>(2 * shift);"))
    mutant = Mutant("constant", FILES[0], 10, start + 30, start + 31, "", "shifted", "", "")
    trial = replace(TRIAL, properties=("empty",))
    assert why_it_survived(trial, builder, mutant, built, "reach", lambda: None) == UNREACHED
    assert why_it_survived(TRIAL, builder, mutant, built, "reached", lambda: None) != UNREACHED


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.slow("builds and checks mutants")
def test_the_command_line():
    # Nothing is found with inputs of no elements; the table and the survivors are tested above.
    quick = ("--mutate", "--mutants", 2, "--dtype", "float32", "--property", "empty")
    found = json.loads(run(f"{KIT}/operators.py::doubled", *quick, "--json", "--min-score", 50, code=1))
    (operator,) = found["operators"]
    assert (operator["name"], operator["score"], operator["planted"]) == ("kit_mutate.doubled", 0, 2)
    assert found["machine"]["torch"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mutants", "3"], "belong to --mutate"),
        (["--min-score", "90"], "belong to --mutate"),
        (["--mutate", "--mutants", "none"], "give a whole number, or all"),
        (["--mutate", "--thorough"], "--thorough and --mutate cannot be combined"),
        (["--mutate", "--sanitize", "address"], "--sanitize and --mutate cannot be combined"),
        (["--mutate", "--property", "x"], "unknown property 'x'"),
        (["--mutate", "--device", "tpu"], "device must be cpu or cuda"),
        (["--mutate", "--device", "cuda"], "has no kernel for cuda"),
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], message: str):
    assert message in " ".join(run(f"{KIT}/operators.py::doubled", *arguments, code=2).split())


def test_only_operators_of_opsmith_are_mutated():
    with pytest.raises(ArgumentError, match="was not made by opsmith"):
        opsmith.mutate(abs)


def test_results_are_read_without_what_draws_them():
    report = MutationReport("a.b", "cpu", (), 0, 0, 0.0)
    assert report.score is None
    report.raise_if_below(90)
    assert "no mutant counts" in str(report)


IN_USE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, opsmith
from kit_mutate.operators import doubled

assert doubled(torch.ones(3)).tolist() == [2, 2, 2]
report = opsmith.mutate(doubled, mutants=1, dtypes="float32", properties="value")
assert report.score == 100 and len(report.verdicts) == 1, report
assert doubled(torch.ones(3)).tolist() == [2, 2, 2]
"""


@pytest.mark.slow("two processes that import torch")
def test_an_operator_in_use_is_mutated_in_a_new_process():
    argv = [sys.executable, "-c", IN_USE, str(KIT.parent)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
