"""How far off a kernel may be: enough for another order of operations, too little for a wrong one."""

from __future__ import annotations

import pytest
import torch

from opsmith.subject.tolerance import allowed_errors


@pytest.mark.parametrize(
    ("dtype", "units"), [(torch.float64, 100), (torch.float32, 40), (torch.float16, 3), (torch.bfloat16, 3)], ids=str
)
def test_a_few_roundings_of_the_result_are_allowed(dtype: torch.dtype, units: int):
    value, none = torch.ones(5, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    allowed = allowed_errors(value, none, none, dtype, length=1, usual=0.0) / torch.finfo(dtype).eps
    assert bool((allowed >= 1).all())
    assert bool((allowed <= units).all())


def test_discrete_results_are_right_or_wrong():
    value, none = torch.arange(3), torch.zeros(3, dtype=torch.float64)
    assert allowed_errors(value, none, none, None, length=1, usual=0.0).tolist() == [0, 0, 0]
