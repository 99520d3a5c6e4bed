"""The operators of the library hold every property of `opsmith check`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import opsmith
from opsmith.check.api import forward_operators
from opsmith.check.find import find_operators
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.mlp import mlp
from opsmith.ops.sigmoid import sigmoid

pytestmark = [pytest.mark.compile, pytest.mark.slow]

MODULES = ("opsmith.ops.add2", "opsmith.ops.lltm", "opsmith.ops.mlp", "opsmith.ops.sigmoid")
OPERATORS = (add2, lltm_cell, lltm_gates, mlp, sigmoid)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.definition.name)
def test_on_the_cpu(op):
    report = opsmith.check(op, devices="cpu")
    assert report.ok, str(report)
    assert not [result for result in report.results if result.outcome.is_error]


def test_no_operator_is_forgotten():
    declared = [op for module in MODULES for op in forward_operators(find_operators(module))]
    assert {op.definition.name for op in declared} == {op.definition.name for op in OPERATORS}


@pytest.mark.gpu
@pytest.mark.parametrize("module", MODULES)
def test_on_a_gpu(module):
    # In a process of its own: this one may have used the GPU, and what is forked from it could not.
    done = subprocess.run(
        [sys.executable, "-m", "opsmith", "check", module, "--device", "cuda"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "!" not in done.stdout, done.stdout
