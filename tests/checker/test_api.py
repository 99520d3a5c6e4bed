"""`opsmith.check(op)`: what it takes, what it gives back, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from jaxtyping import Float
from kit_screen import operators
from sound.sound import layer_norm
from torch import Tensor

import opsmith
from opsmith.checker import Report, Reports
from opsmith.errors import ArgumentError, CheckError

QUICK = {"properties": ["value", "sizes"], "dtypes": [torch.float32]}


def double(x: Tensor) -> Tensor:
    return x * 2


def annotated_double(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2


def one_and_a_half(x: Tensor) -> Tensor:
    return x * 1.5


@pytest.mark.compile
def test_an_operator_that_is_right():
    report = opsmith.check(operators.right, **QUICK)
    assert isinstance(report, Report)
    assert report.ok
    assert report.failed == ()
    assert {result.name for result in report.results} == {"value", "sizes"}
    report.raise_if_failed()


@pytest.mark.compile
def test_an_operator_that_is_wrong():
    report = opsmith.check(operators.wrong, **QUICK)
    assert not report.ok
    assert report.failed == ("value",)
    with pytest.raises(CheckError, match=r"✗ value, cpu, float32: .*the reference has"):
        report.raise_if_failed()
    with pytest.raises(AssertionError):
        report.raise_if_failed()


@pytest.mark.slow("checks of several operators")
@pytest.mark.compile
def test_several_operators_and_a_module():
    reports = opsmith.check([operators.right, operators.wrong], properties=["value"], dtypes=["float32"])
    assert isinstance(reports, Reports)
    assert [report.operator for report in reports] == ["kit_screen.right", "kit_screen.wrong"]
    assert not reports.ok
    assert reports.failed == ("kit_screen.wrong: value",)
    with pytest.raises(CheckError) as raised:
        reports.raise_if_failed()
    assert "kit_screen.right" not in str(raised.value)

    everything = opsmith.check(operators, properties=["empty"], dtypes=["float32"])
    assert len(everything) == 6
    assert everything.ok


def test_a_function_with_a_reference_and_examples():
    examples = [(torch.randn(3),), {"x": torch.randn(2, 5)}]
    assert opsmith.check(double, reference=double, examples=examples, **QUICK).ok
    wrong = opsmith.check(one_and_a_half, reference=double, examples=lambda: examples, **QUICK)
    assert wrong.failed == ("value",)


def test_a_function_that_returns_another_element_type():
    report = opsmith.check(lambda x: (x * 2).bfloat16(), reference=double, examples=[(torch.randn(3),)], **QUICK)
    assert report.failed == ("value",)
    assert "output 0 is torch.bfloat16, the reference's is torch.float32" in report.findings[0].message


def test_an_operator_of_torch_library():
    with torch.library._scoped_library("opsmith_check_api", "DEF") as library:
        library.define("halve(Tensor x) -> Tensor")
        library.impl("halve", lambda x: x / 2, "CompositeExplicitAutograd")
        packet = torch.ops.opsmith_check_api.halve
        examples = [(torch.randn(3),)]
        for op in (packet, packet.default):
            report = opsmith.check(op, reference=lambda x: x * 0.5, examples=examples, **QUICK)
            assert report.ok
            assert report.operator == "opsmith_check_api.halve"


@pytest.mark.slow("three checks")
def test_the_same_seed_makes_the_same_inputs():
    def findings(seed: int) -> str:
        report = opsmith.check(one_and_a_half, reference=annotated_double, seed=seed, **QUICK)
        assert report.seed == seed
        return report.findings[0].message

    assert findings(1) == findings(1)
    assert findings(1) != findings(2)


def three() -> int:
    return 3


def unlucky() -> Iterator[tuple[Tensor]]:
    yield (torch.ones(3),)
    raise RuntimeError("no luck")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"properties": ["valu"]}, "unknown property 'valu'; the properties are value, magnitude"),
        ({"dtypes": ["float8"]}, "unknown element type 'float8'"),
        ({"dtypes": ["int32"]}, "is not checked in int32, only in float64, float32"),
        ({"devices": ["tpu"]}, "cannot be checked on tpu, only on cpu"),
        ({"examples": []}, "there are no inputs to call it with"),
        ({"examples": [(1, 2, 3)]}, "an example has 3 arguments; the operator takes x"),
        ({"examples": torch.ones(3)}, "the examples are .*[Tt]ensor.*; give a list of calls"),
        ({"examples": three}, r"the function of examples three \(.*test_api.py:\d+\) returns int 3; give a list"),
        ({"examples": unlucky}, r"examples unlucky \(.*test_api.py:\d+\) raises RuntimeError: no luck"),
        ({"reference": None}, "has no reference to compare it with"),
    ],
)
def test_what_is_refused(given: dict[str, object], message: str):
    said = {"reference": double, "examples": [(torch.randn(3, dtype=torch.float32),)], **given}
    with pytest.raises(ArgumentError, match=message):
        opsmith.check(double, **said)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"factor": 2.0}, r"an example does not fit: right\(\): x is missing: a tensor"),
        ((torch.ones(2, 3), "two"), r"an example does not fit: right\(\): factor is str 'two', expected a float"),
    ],
)
def test_an_example_that_the_operator_does_not_take_is_refused(example: object, message: str):
    with pytest.raises(ArgumentError, match=message):
        opsmith.check(operators.right, examples=[example], properties="value")


def test_a_module_without_operators_is_refused():
    with pytest.raises(ArgumentError, match="declares no operator"):
        opsmith.check(sys.modules[__name__])


SHIM = """
import warnings, opsmith
warnings.simplefilter("error")
before = opsmith.check
try:
    from opsmith.check import Report
except DeprecationWarning as warning:
    assert "opsmith.checker" in str(warning) and warning.__traceback__ is not None
else:
    raise AssertionError("it does not warn")
warnings.simplefilter("ignore")
import opsmith.check
from opsmith.check import Report, check
assert Report is opsmith.checker.Report
assert opsmith.check is check is before is opsmith.checker.check
print(type(opsmith.check).__name__)
"""


@pytest.mark.slow("a process that imports torch; test_public_names.py has the names")
def test_the_deprecated_module_warns_and_leaves_the_function_in_its_place():
    done = subprocess.run([sys.executable, "-c", SHIM], check=True, capture_output=True, text=True)
    assert done.stdout == "function\n"


def test_the_package_costs_no_import_of_torch():
    program = "import sys, opsmith, opsmith.checker, opsmith.pytest_plugin; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.compile
def test_an_example_without_an_optional_argument_before_another_is_called_right():
    examples = [{"x": torch.randn(3, 4)}, {"x": torch.randn(2, 5), "bias": torch.randn(5)}]
    properties = ["value", "second gradient", "bad arguments"]
    report = opsmith.check(layer_norm, examples=examples, properties=properties, dtypes="float64", devices="cpu")
    assert report.ok, str(report)
    assert {result.outcome.state for result in report.results} == {"passed"}
