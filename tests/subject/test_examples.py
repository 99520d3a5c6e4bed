"""Examples become calls with every argument of the schema, whatever they leave out."""

from __future__ import annotations

import pytest
import torch

from opsmith.ops.bias_act import bias_activation
from opsmith.subject.examples import as_case, completed


@pytest.mark.parametrize("example", [{"b": torch.ones(3), "x": torch.ones(2, 3)}, (torch.ones(2, 3), torch.ones(3))])
def test_what_an_example_leaves_out_has_its_default(example):
    signature = bias_activation.definition.signature
    names = tuple(parameter.name for parameter in signature.parameters)
    assert any(parameter.has_default for parameter in signature.parameters[2:])
    case = completed(as_case(example, names), signature)
    assert tuple(case.arguments) == tuple(name for name in names if name in case.arguments)
    for parameter in signature.parameters:
        if parameter.has_default and parameter.name not in ("x", "b"):
            assert case.arguments[parameter.name] == parameter.default
