"""A finding as a program: what it makes is the case, bit for bit, and it runs and shows the defect."""

from __future__ import annotations

import itertools
import math
import os
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from kit_screen import operators
from torch import Tensor

import opsmith
from forks import python_c
from opsmith.checker.literals import FEW, number_text, tensor_code
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.checker.snippet import MOST_COLUMNS, MOST_LINES, program_of, snippet_of
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.derivatives import GradientRequest
from opsmith.subject.layouts import LAYOUTS
from opsmith.subject.subject import subject_of
from opsmith.subject.values import FLOAT_VALUES, INTEGER_VALUES
from some import some

KNOWN = {"torch": torch, "inf": math.inf, "nan": math.nan}


def made(recipe: TensorRecipe, few: int = FEW) -> Tensor:
    """Run the code of a recipe, which names nothing but what a program imports."""
    code, names = tensor_code(recipe, "cpu", few), dict(KNOWN)
    exec("\n".join(code.before), names)
    return eval(code.expression, names)


def is_same(one: Tensor, other: Tensor) -> bool:
    equal = torch.equal(one.nan_to_num(nan=-5.5), other.nan_to_num(nan=-5.5)) and one.dtype == other.dtype
    signs = one.dtype.is_floating_point
    return equal and (not signs or torch.equal(one.signbit() & ~one.isnan(), other.signbit() & ~other.isnan()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (3, 0), (2, 3, 4), (1, 2, 2, 3), (1, 2, 2, 2, 2), (200, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_line_makes_the_tensor_again(shape: tuple[int, ...], layout: str, dtype: str):
    recipe = TensorRecipe(shape, dtype, layout, "normal", 3)
    wanted = recipe.build("cpu")
    for few in (FEW, 0):
        found = made(recipe, few)
        assert is_same(found, wanted)
        if wanted.numel() > 0:
            assert found.stride() == wanted.stride()
            assert found.storage_offset() == wanted.storage_offset()


KINDS = [
    *itertools.product(("float64", "float32", "float16", "bfloat16"), FLOAT_VALUES),
    *itertools.product(("int64", "int32", "int8", "uint8"), INTEGER_VALUES),
    ("bool", "normal"),
    *itertools.product(("float32", "int64", "bool"), ("last", "positive")),
    *itertools.product(("int64", "uint8"), ("below 70", "1 to 9")),
]


@pytest.mark.parametrize(("dtype", "values"), KINDS)
def test_numbers_are_exact(dtype: str, values: str):
    for shape, seed in (((7, 5), 11), ((70, 50), 12)):
        near = (0.1, 3.5) if values == "ties" and seed == 12 else ()
        recipe = TensorRecipe(shape, dtype, "contiguous", values, seed, near=near)
        assert "TensorRecipe" not in tensor_code(recipe, "cpu", 0).expression
        assert is_same(made(recipe), recipe.numbers())
        assert is_same(made(recipe, 0), recipe.numbers())


@pytest.mark.parametrize(("dtype", "values"), KINDS)
def test_a_program_imports_torch_and_the_module_alone_and_fits_on_a_screen(dtype: str, values: str):
    subject = subject_of(scale, reference=scale)
    for layout, (_, ranks) in LAYOUTS.items():
        shape = {0: (40, 30), 1: (40, 30), 2: (9, 8)}.get(ranks.start, (2, 3, 8, 9))
        case = Case({"x": TensorRecipe(shape, dtype, layout, values, 3), "scale": 2.5})
        for name, earlier in (("value", (case,)), ("gradient", ())):
            text = snippet_of(subject, case, "cpu", name, earlier)
            imports = [line for line in text.splitlines() if line.startswith(("import", "from"))]
            assert {line.split()[1] for line in imports} <= {"torch", __name__}
            assert text.count("\n") < MOST_LINES, text
            assert max(map(len, text.splitlines())) <= MOST_COLUMNS, text
            compile(text, "<program>", "exec")


def test_numbers_are_short():
    assert number_text(float(torch.tensor(0.1, dtype=torch.float32)), torch.float32) == "0.1"
    assert number_text(float(torch.tensor(0.1, dtype=torch.bfloat16)), torch.bfloat16) == "0.1"
    assert number_text(0.1, torch.float64) == "0.1"
    assert number_text(-0.0, torch.float32) == "-0.0"


def test_small_tensors_are_written_out_and_large_ones_are_constructor_calls():
    assert tensor_code(TensorRecipe((2,), "float32", given=torch.tensor([1.0, 2.0])), "cuda").expression == (
        "torch.tensor([1.0, 2.0], dtype=torch.float32, device='cuda')"
    )
    assert tensor_code(TensorRecipe((2, 3), "int8", given=torch.ones(2, 3)), "cpu").expression == (
        "torch.full((2, 3), 1, dtype=torch.int8)"
    )
    large = tensor_code(TensorRecipe((100,), "float32", "contiguous", "big", 5), "cpu")
    assert large.before == ("torch.manual_seed(5)",)
    assert large.expression == "(60 + 60 * torch.rand((100,), dtype=torch.float64)).float()"
    assert tensor_code(TensorRecipe((9, 99), "int32", given=torch.arange(891).reshape(9, 99)), "cpu").expression == (
        "torch.arange(891, dtype=torch.int32).reshape((9, 99))"
    )


def run(text: str, code: int = 0) -> str:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "PYTHONPATH": path}
    done = python_c(text, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.compile
def test_the_snippet_of_a_wrong_value_runs_and_shows_it():
    report = opsmith.check(operators.wrong, properties=["value"], dtypes=["float32"])
    (finding,) = report.findings
    assert "TensorRecipe" not in finding.snippet
    assert finding.snippet in str(report).replace("      ", "")
    found, expected = run(finding.snippet).splitlines()
    assert found.startswith("operator:  tensor([[")
    number = float(found.partition("[[")[2].partition("]")[0])
    reference = float(expected.partition("[[")[2].partition("]")[0])
    assert number - reference == pytest.approx(0.25)


@pytest.mark.compile
def test_the_snippet_of_a_crash_crashes():
    report = opsmith.check(operators.crashing, properties=["sizes"], dtypes=["float32"])
    run(report.findings[0].snippet, code=-11)


@pytest.mark.compile
def test_a_large_case_is_compared_by_the_program():
    subject = subject_of(operators.wrong)
    case = Case({"x": TensorRecipe((50, 60), "float32", "transposed", "normal", 3)})
    text = snippet_of(subject, case, "cpu")
    assert "Mismatched elements: 3000 / 3000" in run(text, code=1)


def scale(x: Float[Tensor, "N"], scale: float) -> Float[Tensor, "N"]:
    return x * scale


def run_here(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(text, {"__name__": "snippet"})
    torch.set_printoptions(profile="default")
    return capsys.readouterr().out.splitlines()


CASE = Case({"x": TensorRecipe((2,), "float64", given=torch.tensor([1.0, 2.0])), "scale": math.inf})


def test_an_argument_may_be_called_as_the_operator_is(capsys: pytest.CaptureFixture[str]):
    text = snippet_of(subject_of(scale, reference=scale), CASE, "cpu")
    assert f"from {__name__} import scale as operator" in text
    assert "from torch import inf" in text
    assert run_here(text, capsys)[0] == "operator:  tensor([inf, inf], dtype=torch.float64)"


def test_a_reference_that_cannot_be_imported_is_said_to_be_missing():
    text = snippet_of(subject_of(scale, reference=lambda x, scale: x, examples=[(torch.ones(2), 1.0)]), CASE, "cpu")
    assert "# reference: the function passed as reference" in text


def test_an_operator_of_torch_ops_is_named_there(capsys: pytest.CaptureFixture[str]):
    subject = subject_of(torch.ops.aten.sin.default, reference=torch.sin, examples=[(torch.ones(2),)])
    text = snippet_of(subject, Case({"self": CASE.arguments["x"]}), "cpu")
    assert "torch.ops.aten.sin(self)" in text


def shifted(x: Float[Tensor, "N"], *, by: float = 1.0) -> Float[Tensor, "N"]:
    return x + by


@pytest.mark.parametrize("name", ["value", "gradient"])
def test_arguments_that_go_by_name_do(name: str, capsys: pytest.CaptureFixture[str]):
    case = Case({"x": CASE.arguments["x"], "by": 2.5})
    text = snippet_of(subject_of(shifted, reference=shifted), case, "cpu", name)
    assert "shifted(x, by=by)" in text or name == "gradient"
    assert "tensor([3.5" in run_here(text, capsys)[0] or name == "gradient"


@opsmith.op(namespace="opsmith_check_snippet", outputs=("y", "twice"), saved="twice")
def squared(x: Float[Tensor, "N"], needs_twice: bool = False) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    return x * x, 2 * x if needs_twice else None


@squared.backward()
def squared_backward(
    grad_y: Float[Tensor, "N"], x: Float[Tensor, "N"], twice: Float[Tensor, "N"]
) -> Float[Tensor, "N"]:
    return twice * grad_y


def test_programs_of_gradients_ask_for_what_the_backward_needs(capsys: pytest.CaptureFixture[str]):
    case = Case({"x": CASE.arguments["x"], "needs_twice": False})
    text = snippet_of(subject_of(squared), case, "cpu", "gradient")
    operator, reference = (line.partition(":")[2].strip() for line in run_here(text, capsys))
    assert operator == reference
    assert "needs_twice = True" in text
    assert "needs_twice = False" in snippet_of(subject_of(squared), case, "cpu", "value")


def added(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + y


@pytest.mark.parametrize(("layout", "words"), [("summed", "expand_as(out)"), ("transposed", "'transposed'")])
def test_programs_take_the_gradients_that_were_wrong(layout: str, words: str, capsys: pytest.CaptureFixture[str]):
    case = Case({"x": CASE.arguments["x"], "y": CASE.arguments["x"]})
    request = GradientRequest(("y",), (0,), layout)
    text = program_of(subject_of(added, reference=added), case, "cpu", "gradient", (), request).text
    assert words in text
    assert "y = y.detach().requires_grad_()" in text
    assert "x = x.detach().requires_grad_()" not in text
    operator, reference = (line.partition(":")[2].strip() for line in run_here(text, capsys))
    assert operator == reference


def half_a_graph(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """x^3, whose second gradient is half of what it should be."""
    return 1.5 * x.detach() * x * x - 0.5 * x.detach() ** 3 + 0 * x


def cubed(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x**3


def test_the_program_of_a_second_gradient_differentiates_twice(capsys: pytest.CaptureFixture[str]):
    case = Case({"x": CASE.arguments["x"]})
    subject = subject_of(half_a_graph, reference=cubed)
    first = run_here(snippet_of(subject, case, "cpu", "gradient"), capsys)
    assert first[0].partition(":")[2].strip() == first[1].partition(":")[2].strip()
    operator, reference = run_here(snippet_of(subject, case, "cpu", "second gradient"), capsys)
    assert "[ 3., 12.]" in operator
    assert "[ 6., 24.]" in reference  # 6 x, weighted with 1 and 2


def add_twice_(x: Tensor, other: Tensor) -> None:
    x.add_(other, alpha=2)


def add_once_(x: Tensor, other: Tensor) -> None:
    x.add_(other)


def test_a_written_argument_is_shown_after_the_calls(capsys: pytest.CaptureFixture[str]):
    with torch.library._scoped_library("opsmith_check_snippet", "DEF") as library:
        library.define("add_(Tensor(a!) x, Tensor other) -> ()")
        library.impl("add_", add_once_, "CompositeExplicitAutograd")
        op = torch.ops.opsmith_check_snippet.add_
        recipe = CASE.arguments["x"]
        subject = subject_of(op, reference=add_twice_, examples=[(torch.ones(2), torch.ones(2))])
        after, expected = run_here(snippet_of(subject, Case({"x": recipe, "other": recipe}), "cpu"), capsys)
    assert after == "x after the operator:  tensor([2., 4.], dtype=torch.float64)"
    assert expected == "x after the reference: tensor([3., 6.], dtype=torch.float64)"


@pytest.mark.compile
@pytest.mark.parametrize(
    "name",
    some(["gradient", "inputs unchanged", "determinism", "fake", "compile", "writes outside"], 2, "a check for each"),
)
def test_other_properties_have_programs_of_their_own(name: str):
    case = Case({"x": TensorRecipe((2, 3), "float64", "offset", "normal", 3), "factor": 3.0})
    text = snippet_of(subject_of(operators.right), case, "cpu", name)
    printed = run(text)
    if name == "gradient":
        assert printed.count("3., 3., 3.") == 0  # weighted: a gradient of the wrong element shows
        assert printed.count("18.") == 2
    if name == "inputs unchanged":
        assert printed == "x is what it was: True\n"


def test_a_case_that_cannot_be_written_says_so():
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("it has no name")

    subject = subject_of(scale, reference=lambda x, scale: x * 2, examples=[(torch.ones(2), Odd())])
    plan = CheckPlan(properties=chosen(("value",)), isolate=False)
    (finding, *_) = run_check(subject, plan).findings
    assert finding.snippet.startswith("# It cannot be written as a program (RuntimeError: it has no name)")
