"""No operator of opsmith.ops is left out of the tests in this folder without being named."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
import torch
from compose_kit.table import ALL, CHECKED_ELSEWHERE, Case, each_case

import opsmith
import opsmith.ops

pytestmark = pytest.mark.compile


def test_every_operator_of_the_library_is_in_the_table_or_named_beside_it():
    packages = pkgutil.walk_packages(opsmith.ops.__path__, "opsmith.ops.")
    modules = [importlib.import_module(package.name) for package in packages]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, opsmith.Operator)}
    assert len(found) > 1
    in_table = {case.name for case in ALL}
    assert not in_table & CHECKED_ELSEWHERE
    assert {operator.definition.name for operator in found} == in_table | CHECKED_ELSEWHERE


@each_case
def test_values_are_those_of_the_body(case: Case):
    arguments = case.make()
    torch.testing.assert_close(case.found(*arguments), case.expected(*arguments))


@each_case
def test_gradients_are_those_of_the_body(case: Case):
    arguments = case.make()
    found = torch.autograd.grad(case.total(*arguments), arguments, allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad(
        case.expected_total(*arguments), arguments, allow_unused=True, materialize_grads=True
    )
    torch.testing.assert_close(found, expected)
