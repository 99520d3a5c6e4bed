"""`%%opsmith` builds a cell, binds its newest version, keeps the earlier ones valid, and says what is wrong at its lines."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from planted import small

from opsmith.checker.api import Reports
from opsmith.checker.outcome import Finding, Outcome
from opsmith.checker.report import Column, Report, Result

pytestmark = pytest.mark.compile

CELL = """import opsmith
import torch
from jaxtyping import Float
from torch import Tensor

_private = 2

@opsmith.op(cpu="twice.cpp", outputs="y", dtypes=[torch.float32])
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x

%%file factor.h
constexpr int factor = 2;

%%file twice.cpp
#include <opsmith/kernel.h>
#include "factor.h"
using namespace opsmith;

template <class T>
void twice(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = factor * x(n);
}
"""
ONE = torch.ones(1)


def failure_of(result: Any) -> str:
    assert not result.success
    return str(result.error_in_exec)


def test_a_cell_is_built_and_gives_the_notebook_its_names(shell, run):
    result, _ = run(CELL)
    assert result.success
    assert shell.user_ns["twice"].is_loaded
    assert shell.user_ns["twice"](ONE).item() == 2
    assert shell.user_ns["Tensor"] is torch.Tensor
    assert "_private" not in shell.user_ns


def test_an_edited_cell_is_the_newest_and_the_earlier_stays_valid(shell, run):
    run(CELL)
    first = shell.user_ns["twice"]
    result, _ = run(CELL.replace("factor = 2", "factor = 3"))
    assert result.success
    assert shell.user_ns["twice"] is not first
    assert shell.user_ns["twice"](ONE).item() == 3
    assert first(ONE).item() == 2
    x = ONE.clone().requires_grad_()
    first(x).sum().backward()
    assert x.grad.item() == 2


def test_a_cell_that_is_run_again_or_restored_is_the_operator_that_it_was(shell, run):
    run(CELL)
    first = shell.user_ns["twice"]
    run(CELL.replace("factor = 2", "factor = 3"))
    run(CELL)
    assert shell.user_ns["twice"] is first


def test_an_error_of_the_compiler_stands_at_the_line_of_the_cell(shell, run):
    wrong = CELL.replace("y(n) = factor", "z(n) = factor")
    line = next(number for number, text in enumerate(wrong.splitlines(), start=2) if "z(n)" in text)
    run(CELL)
    before = shell.user_ns["twice"]
    result, shown = run(wrong)
    error = failure_of(result)
    assert type(result.error_in_exec).__name__ == "CompileError"
    assert re.search(rf"Cell In\[\d+\], twice\.cpp:{line}:\d+: ", error)
    assert f"{line} |   for (int64_t n = 0; n < x.size[0]; ++n) z(n)" in error
    assert "opsmith-cells" not in error
    assert error.splitlines()[0] in shown
    assert "interactiveshell.py" not in shown and "magic.py" not in shown
    assert shell.user_ns["twice"] is before


def test_a_kernel_of_another_signature_is_told_with_both_lines_of_the_cell(run):
    result, _ = run(CELL.replace("View<T, 1> y)", "View<T, 2> y)"))
    error = failure_of(result)
    assert re.match(r"Cell In\[(\d+)\], twice\.cpp:22: .* its definition \(Cell In\[\1\], line 9\)", error)
    assert "opsmith stub" not in error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import opsmith\n\nundefined\n", ["----> 4 undefined", "NameError: name 'undefined' is not defined"]),
        (CELL.replace('outputs="y"', "spline=3"), ["----> 9 @opsmith.op(", "op() has no option 'spline'"]),
        (CELL.replace("return 2 * x", "return (2 * x"), ["line 11: '(' was never closed", "    return (2 * x"]),
    ],
    ids=["exception", "definition", "syntax"],
)
def test_an_error_of_the_definition_stands_at_the_line_of_the_cell(run, text, says):
    result, shown = run(text)
    assert not result.success
    assert re.search(r"Cell In\[\d+\], line \d+", shown)
    for part in says:
        assert part in shown
    assert "interactiveshell.py" not in shown and "/notebook/" not in shown


def test_an_error_of_the_body_stands_at_the_line_of_the_cell(run):
    run(CELL.replace("return 2 * x", "return 2 * x.nothing"))
    _, shown = run("twice.reference(torch.ones(1))", magic=None)
    assert re.search(r"Cell In\[\d+\], line 11, in twice", shown)
    assert "---> 11     return 2 * x.nothing" in shown


def test_a_cell_sees_no_names_of_others(run):
    run("factor = 2\nlen = None\n", magic=None)
    result, _ = run(CELL.replace("return 2 * x", "return factor * x * len(x.shape)"))
    assert "twice uses factor from another cell" in failure_of(result)


def test_a_kernel_that_is_missing_is_shown_as_a_skeleton(run):
    result, _ = run(CELL.partition("%%file")[0])
    error = failure_of(result)
    assert "%%file twice.cpp\n#include <opsmith/kernel.h>" in error
    assert "void twice(View<const T, 1> x, View<T, 1> y) {" in error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "the cell declares no operator"),
        (CELL + "%%file other.cu\n", r'no operator .* in other\.cu: name it, as in cuda="other\.cu"'),
    ],
    ids=["no operator", "no kernel"],
)
def test_a_cell_whose_parts_do_not_fit_is_refused(run, text, says):
    result, _ = run(text)
    assert re.search(says, failure_of(result))


def test_a_wrong_option_is_refused(run):
    result, _ = run(CELL, "--nonsense")
    assert "--nonsense" in failure_of(result)


def test_a_cell_is_saved_as_a_package(run, tmp_path):
    result, _ = run(CELL, f"--save {tmp_path / 'made'}")
    assert result.success
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["__init__.py", "factor.h", "twice.cpp"]
    assert (tmp_path / "made" / "twice.cpp").read_text().startswith("#include <opsmith/kernel.h>\n")
    assert (tmp_path / "made" / "__init__.py").read_text() == CELL.partition("\n\n%%file")[0] + "\n"


def test_saving_an_edited_cell_replaces_what_it_saved_before(run, tmp_path):
    edited = CELL.replace("factor = 2", "factor = 5")
    for text in (CELL, edited, edited):
        assert run(text, f"--save {tmp_path / 'made'}")[0].success
    assert (tmp_path / "made" / "factor.h").read_text() == "constexpr int factor = 5;\n"


def test_saving_loses_no_file_of_the_user(run, tmp_path):
    folder = tmp_path / "made"
    assert run(CELL, f"--save {folder}")[0].success
    (folder / "twice.cpp").write_text("mine")
    result, _ = run(CELL.replace("factor = 2", "factor = 6"), f"--save {folder}")
    assert failure_of(result) == (
        f"--save {folder}: twice.cpp there is not what this session saved, and would be lost; nothing was written. "
        "Move or delete it, or name another folder"
    )
    assert (folder / "twice.cpp").read_text() == "mine"
    assert (folder / "factor.h").read_text() == "constexpr int factor = 2;\n"
    (folder / "twice.cpp").unlink()
    assert run(CELL, f"--save {folder}")[0].success


def test_saving_where_another_package_is_or_no_folder_can_be(run, tmp_path):
    (tmp_path / "__init__.py").write_text("mine")
    assert "__init__.py there is not what this session saved" in failure_of(run(CELL, f"--save {tmp_path}")[0])
    assert [path.name for path in tmp_path.iterdir()] == ["__init__.py"]
    file = tmp_path / "__init__.py"
    assert f"--save {file}: Not a directory" in failure_of(run(CELL, f"--save {file}")[0])


def test_a_cell_leaves_nothing_in_the_users_folders_for_editors(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_TYPINGS", str(tmp_path / "typings"))
    monkeypatch.setenv("OPSMITH_COMPILE_COMMANDS", str(tmp_path / "build"))
    result, _ = run(CELL.replace("factor = 2", "factor = 4"))
    assert result.success
    assert list(tmp_path.iterdir()) == []


def test_another_process_that_has_the_path_can_import_it(shell, run):
    """As the new processes of a check and those of a data loader do."""
    run(CELL)
    packed = pickle.dumps(shell.user_ns["twice"])
    program = f"import sys\nsys.path[:] = {sys.path!r}\nimport pickle\nprint(pickle.loads({packed!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "twice(Tensor x) -> Tensor" in done.stdout, done.stderr


def planted_check(state: str) -> Reports:
    outcome = Outcome(state, findings=(Finding("wrong"),) if state == "failed" else ())
    return Reports([Report("cell.twice", (Result("value", Column("cpu", "float32"), outcome),), 0, 1.0)])


@pytest.mark.parametrize("state", ["passed", "failed"])
def test_a_check_is_shown_and_a_failed_one_fails_the_cell(run, monkeypatch, state):
    asked = []

    def check(module: Any, **options: Any) -> Reports:
        asked.append((module.twice.is_loaded, options))
        return planted_check(state)

    monkeypatch.setattr("opsmith.checker.api.check", check)
    result, shown = run(CELL, "--check 7")
    assert asked == [(True, {"seconds": 7.0})]
    assert str(planted_check(state)) in shown
    assert result.success is (state == "passed")
    if state == "failed":
        assert failure_of(result) == "cell.twice: value: the report above says how"


def test_a_benchmark_is_shown_as_text_and_with_plots(shell, run, monkeypatch):
    report = small()
    monkeypatch.setattr("opsmith.benchmark.api.bench", lambda module, **options: report)
    published = []
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, metadata=None, **rest: published.append(data))
    result, _ = run(CELL, "--bench")
    assert result.success
    (data,) = published
    assert data["text/plain"] == str(report)
    assert "data:image/svg+xml;base64," in data["text/html"]
