"""Contenders have names of their own, one configuration each, and are built together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

from opsmith.build.prepare import prepare
from opsmith.runtime.operator import Operator
from opsmith.runtime.register import register_kernels, register_rules
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Group
from opsmith.tuning import contenders

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"


@pytest.fixture(scope="module")
def rows() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    yield import_module("rows")
    sys.path.remove(str(EXAMPLES))


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_one_plan_builds_all(phase: contenders.Phase, rows: ModuleType) -> None:
    definition = rows.softmax.definition
    found = contenders.contenders_of(contenders.launch_of(definition, phase))
    pairs = [contenders._pair(definition, phase, each, "planned") for each in found]
    compiled = tuple(one for pair in pairs for one in pair if one.kernels)
    suffix = "" if phase == "forward" else "_backward"
    assert [one.qualified_name for one in compiled] == [f"planned::softmax{suffix}_{n}" for n in range(len(found))]
    for one, contender in zip(compiled, found, strict=True):
        (config,) = one.kernels["cuda"].launch.configs
        assert config == replace(contender.config, when=None)
    plan = prepare(Group(definition.module, definition.file, compiled), ("cuda",), archs="9.0", strict=True).plan
    assert sum(name.endswith(".triton.json") for name in plan.files) == len(found)


def test_a_contender_for_the_backward_is_an_operator_with_a_gradient(rows: ModuleType) -> None:
    definition = rows.softmax.definition
    (first, *_) = contenders.contenders_of(contenders.launch_of(definition, "backward"))
    forward, backward = contenders._pair(definition, "backward", first, "registered")
    backward = replace(backward, kernels={})  # here, the definition stands for the kernel
    pair = (replace(forward, backward=backward), backward)
    for one in pair:
        register_kernels(one, is_defined=False, missing={})
    for one in pair:
        register_rules(one)
    operator = Operator(pair[0])
    operator.attach(overload_of(operator.definition.qualified_name))
    x = torch.randn(3, 5, requires_grad=True)
    weight = torch.randn(3, 5)
    (found,) = torch.autograd.grad(operator(x), x, weight)
    (expected,) = torch.autograd.grad(torch.softmax(x, 1), x, weight)
    torch.testing.assert_close(found, expected)
