"""How an operator is held to its definition: its values to the body's, the form of its outputs to the fake kernel's."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

import opsmith


def agree(operator: opsmith.Operator, *args: Any, tolerance: float = 0.0, **kwargs: Any) -> Any:
    """Return the kernel's result after comparing it, and what it wrote to its arguments, with the body's."""
    copied_args, copied_kwargs = copy.deepcopy((args, kwargs))
    expected = operator.reference(*copied_args, **copied_kwargs)
    actual = operator(*args, **kwargs)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    torch.testing.assert_close(_tensors((args, kwargs)), _tensors((copied_args, copied_kwargs)), rtol=0, atol=tolerance)
    assert forms(actual) == forms(fake_result(operator, *args, **kwargs))
    return actual


def fake_result(operator: opsmith.Operator, *args: Any, **kwargs: Any) -> Any:
    """Return what the operator returns under FakeTensorMode."""
    with FakeTensorMode() as mode:
        args, kwargs = pytree.tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
        return operator(*args, **kwargs)


def forms(result: Any) -> list[tuple[Any, ...]]:
    """Return sizes, strides, element type and device of every tensor in a result."""
    return [(tuple(t.shape), t.stride(), t.dtype, t.device) for t in _tensors(result)]


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
