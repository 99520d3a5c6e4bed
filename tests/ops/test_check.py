"""The operators of the library hold every property of `opsmith check`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from operator_cases import CASES, MODULES, OWN_TESTS

import opsmith
from opsmith.checker.sanitize.run import Request, run_sanitizer
from opsmith.checker.sanitize.tools import GPU_TOOLS
from opsmith.subject.find import find_operators
from opsmith.subject.selection import forward_operators
from warm import warm_up

pytestmark = [pytest.mark.compile, pytest.mark.slow("a whole check of each operator")]

VALUES = ("value", "magnitude", "special values", "sizes", "empty", "strides", "arguments", "gradient")
# They share their kernels' code with others here, or tests of their own compare them with another library for each change.
NIGHTLY = {
    *("hard_nms_padded", "soft_nms_padded", "soft_nms", "roi_align_pyramid_sized", "lltm_gates"),
    *("focal_loss_sum", "focal_loss_classes", "focal_loss_classes_sum"),
    *("filtered_lrelu_sized", "filtered_lrelu_signed", "roi_pool_sized", "lltm_sequence"),
    *("pasted_masks", "pasted_binary_masks", "converted_boxes", "clipped_boxes", "giou_losses", "giou_loss_sum"),
    "linear_assignment_ragged",
}
OPERATORS = [op for module in MODULES for op in forward_operators(find_operators(module))]


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Load what checks use before they fork."""
    warm_up()


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(
            op,
            marks=pytest.mark.nightly(
                "make test-all checks an operator with the same code, or compares it with SciPy or grid_sample"
            ),
        )
        if op.definition.name in NIGHTLY
        else op
        for op in OPERATORS
    ],
    ids=lambda op: op.definition.name,
)
def test_on_the_cpu(op, monkeypatch):
    # All properties to their end, but for those that try as many inputs as there is time for: they get a part of it.
    monkeypatch.setattr("opsmith.checker.run._SECONDS", 1.5)
    report = opsmith.check(op, devices="cpu", dtypes="float32")
    assert report.ok, str(report)
    assert not [result for result in report.results if result.outcome.is_error]


@pytest.mark.nightly("values in three more types; test_library.py has every type for each change")
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.definition.name)
def test_values_in_the_other_types(op):
    # What does not depend on the type was tried in float32; `make gpu-test` has no limit.
    others = [name for name in op.definition.signature.dtypes["T"] if name != "float32"]
    assert opsmith.check(op, devices="cpu", dtypes=others, properties=VALUES, seconds=2.5).ok


def test_no_operator_is_forgotten():
    declared = {op.definition.name for op in OPERATORS}
    assert declared == {case.name for case in CASES} | set(OWN_TESTS)
    assert all((Path(__file__).parent / file).is_file() for file in OWN_TESTS.values())


@pytest.mark.gpu
@pytest.mark.parametrize("module", MODULES)
def test_on_a_gpu(module):
    # In a process of its own: this one may have used the GPU, and what is forked from it could not.
    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "opsmith", "check", module, "--device", "cuda"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    done = check()
    if "the GPU's memory is full" in done.stdout:  # the other workers' checks have filled it: their largest inputs
        done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "!" not in done.stdout, done.stdout


@pytest.mark.gpu
@pytest.mark.sanitizer
@pytest.mark.parametrize("kind", GPU_TOOLS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.definition.name)
def test_under_compute_sanitizer(op, kind):
    report = run_sanitizer(op, kind, Request("", seconds=20))
    (result,) = report.results
    assert result.outcome.state == "passed", str(report)
