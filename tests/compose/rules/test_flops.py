"""Flop counters count an operator as they would count its body, or as it was declared."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from kit import natives, shapes
from rules_kit import operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import opsmith
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates


def count(function: object, *args: object, **kwargs: object) -> int:
    assert callable(function)
    with FlopCounterMode(display=False) as counter:
        function(*args, **kwargs)
    return counter.get_total_flops()


def cell_arguments() -> list[Tensor]:
    return [torch.randn(sizes, requires_grad=True) for sizes in ((3, 2), (3, 4), (3, 4), (12, 6), (12,))]


@pytest.mark.compile
def test_a_cell_counts_its_matrix_products():
    # [3, 6] by [6, 12]: a multiplication and an addition for each.
    arguments = cell_arguments()
    assert count(lltm_cell, *arguments) == 2 * 3 * 6 * 12
    assert count(lltm_cell, *arguments) == count(lltm_cell.reference, *arguments)


@pytest.mark.compile
def test_a_backward_counts_its_own():
    hidden, cell = lltm_cell(*cell_arguments())
    with FlopCounterMode(display=False) as counter:
        (hidden + cell).sum().backward()
    # The gradients of input and hidden, and that of the weight.
    assert counter.get_flop_counts()["Global"] == {torch.ops.opsmith.lltm_cell_backward: 2 * (2 * 3 * 6 * 12)}


@pytest.mark.compile
def test_operators_without_matrix_products_count_nothing():
    x = torch.randn(3, 4)
    assert count(add2, x, x) == 0
    assert count(lltm_gates, torch.randn(3, 12), x) == 0
    assert count(shapes.upfir, torch.randn(2, 5), torch.rand(3), 2, 1, 1, 1) == 0


@pytest.mark.compile
def test_a_backward_that_is_derived_from_the_body():
    x, weight = torch.randn(3, 2, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    out = natives.linear(x, weight)
    with FlopCounterMode(display=False) as counter:
        out.sum().backward()
    # It runs the forward's body again, and differentiates it.
    assert counter.get_total_flops() == 3 * (2 * 3 * 2 * 4)


def test_a_gradient_through_the_body():
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    assert count(operators.matrix_product, a, b) == 2 * 3 * 4 * 2
    # Without a backward the body is run again, and that is work, too.
    assert count(lambda: operators.matrix_product(a, b).sum().backward()) == 4 * (2 * 3 * 4 * 2)


def test_inference_mode_counts_the_same():
    with torch.inference_mode():
        assert count(operators.matrix_product, torch.randn(3, 4), torch.randn(4, 2)) == 2 * 3 * 4 * 2


def test_a_formula_by_hand_gets_every_argument():
    assert count(operators.declared, torch.randn(5)) == 15
    assert count(operators.declared, torch.randn(5), factor=1.0, shift=2.0) == 15


def test_a_body_that_reads_numbers():
    assert count(operators.rows_until, torch.randn(4, 3), torch.tensor(2)) == 0


def test_a_body_that_writes_leaves_the_arguments_alone():
    total = torch.zeros(3)
    count(operators.add_to, total, torch.ones(3))
    assert total.tolist() == [1.0] * 3


def test_tensors_without_memory():
    with FakeTensorMode():
        assert count(operators.matrix_product, torch.empty(3, 4), torch.empty(4, 2)) == 2 * 3 * 4 * 2
    meta = torch.empty(4, 4, device="meta")
    assert count(operators.matrix_product, meta, meta) == 2 * 4 * 4 * 4


@pytest.mark.slow("imports torch again")
def test_a_counter_that_is_older_than_the_operator_counts_it(tmp_path):
    (tmp_path / "late.py").write_text(
        "import torch, opsmith\n"
        "from jaxtyping import Float\n"
        "from torch import Tensor\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "@opsmith.op()\n"
        "def product(a: Float[Tensor, 'N K'], b: Float[Tensor, 'K M']) -> Float[Tensor, 'N M']:\n"
        "    return a @ b\n"
        "with FlopCounterMode(display=False) as counter:\n"
        "    product(torch.ones(3, 4), torch.ones(4, 2))\n"
        "print(counter.get_total_flops())\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "late.py"], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2 * 3 * 4 * 2


def test_every_operator_of_a_module_is_known():
    operators.times.load()
    registered = torch.utils.flop_counter.flop_registry
    for operator in (operators.times, operators.times_backward):
        assert isinstance(operator, opsmith.Operator)
        assert operator.torch_op.overloadpacket in registered
