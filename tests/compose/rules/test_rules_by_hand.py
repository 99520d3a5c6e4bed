"""A rule that the user wrote takes the place of the derived one, if it is said in time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rules_kit import operators, spare

from opsmith.errors import DefinitionError


def test_a_rule_is_a_function():
    with pytest.raises(DefinitionError, match=r"spare.vmap decorates a function, found 3"):
        spare.spare.vmap(3)  # type: ignore[arg-type]


def test_a_rule_comes_back_so_that_it_can_be_called():
    def count(x: Any) -> int:
        return 7

    assert spare.spare.flops(count) is count
    assert spare.spare.definition.rules.flops is count
    assert spare.spare.definition.rules.vmap is None


def test_a_rule_is_declared_before_the_first_call():
    operators.times(torch.ones(1, 1), torch.ones(1, 1))
    for kind in ("vmap", "sharding", "flops"):
        with pytest.raises(DefinitionError, match=f"times is already loaded; declare its {kind} rule before the first"):
            getattr(operators.times, kind)(print)
