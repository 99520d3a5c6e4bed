"""Calls every operator and function of the library with arguments that are wrong in one to three ways.

Whatever they are, a call ends: with the definition's values, or with an exception that names the operator or is one of
opsmith's, which say what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hostile import ANY, NUMERIC_EXTREMES, TENSORS
from hypothesis import strategies as st
from library import FUNCTIONS, Called, operators
from outcomes import Raised, attempt
from torch import Tensor

pytestmark = pytest.mark.compile

# What is done to one argument: the name of a change of TENSORS, or the index of a value of ANY.
Change = tuple[str, "str | int"]

# PyTorch's own words where a function computes with tensors before or after an operator: with the number of bytes or the
# sizes, and of a build for GPUs where there is none.
_OF_PYTORCH = ("can't allocate memory", "Storage size calculation overflowed", "CUDA", "NVIDIA driver")

_PLAIN = frozenset({torch.float32, torch.float64})


@pytest.mark.parametrize("called", (*operators(), *FUNCTIONS), ids=lambda called: called.name)
def test_any_arguments(called: Called, fuzz: Callable[..., None]) -> None:
    arguments = called.arguments()
    names = st.sampled_from(sorted(arguments))
    how = st.one_of(st.sampled_from(sorted(TENSORS)), st.integers(0, len(ANY) - 1))
    changes = st.lists(st.tuples(names, how), min_size=1, max_size=3, unique_by=lambda change: change[0])

    def test(changes: list[Change]) -> None:
        found = attempt(lambda: _call(called, changes))
        if isinstance(found, Raised):
            is_clear = found.is_ours or any(words in found.text for words in (*called.names, *_OF_PYTORCH))
            assert is_clear, f"{found.kind} names neither operator nor remedy: {found.text[:500]}"
        else:
            assert found == "", found

    fuzz(changes, test, examples=25, together=True)


def _call(called: Called, changes: list[Change]) -> str:
    """Call with changed arguments; return how the result differs from the definition's, or ""."""
    made = _changed(called.arguments(), changes)
    if made is None:
        return ""
    # Apart from each other: an operator may write to its arguments.
    again = _changed(called.arguments(), changes)
    result = called.function(**made)
    if called.reference is None or again is None or _is_large(again):
        return ""
    try:
        expected = called.reference(**again)
    except Exception:
        return ""  # a kernel may take more than the body does
    is_extreme = any(how in NUMERIC_EXTREMES or _overflows(made[name]) for name, how in changes)
    # With `tf32` the definition rounds the factors of products, and a kernel for a CPU need not.
    is_extreme = is_extreme or any(name == "tf32" for name, _ in changes)
    return _difference(result, expected, values=not is_extreme)


def _changed(arguments: Mapping[str, Any], changes: list[Change]) -> dict[str, Any] | None:
    """Return the arguments with changes, or None where torch itself does not make such a tensor."""
    made = dict(arguments)
    for name, how in changes:
        value = made[name]
        if isinstance(how, int):
            made[name] = ANY[how]
        elif isinstance(value, Tensor):
            try:
                made[name] = TENSORS[how](value)
            except Exception:
                return None
    return made


def _is_large(arguments: Mapping[str, Any]) -> bool:
    """Whether plain PyTorch would need a lot of memory or time."""
    numbers = [item for value in arguments.values() for item in (value if isinstance(value, list | tuple) else [value])]
    return any(
        (isinstance(item, Tensor) and item.numel() > 1 << 20) or (type(item) is int and abs(item) > 64)
        for item in numbers
    )


def _overflows(value: Any) -> bool:
    return isinstance(value, float) and abs(value) > 1e30


def _difference(found: Any, expected: Any, *, values: bool) -> str:
    ours, theirs = _tensors(found), _tensors(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, the definition has {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
            return f"{one.dtype} {list(one.shape)}, the definition has {other.dtype} {list(other.shape)}"
        if values and one.dtype in _PLAIN and one.device.type == "cpu":
            near = torch.isclose(one.detach().double(), other.detach().double(), rtol=1e-3, atol=1e-3, equal_nan=True)
            if not bool(near.all()):
                worst = (one.detach().double() - other.detach().double()).abs().nan_to_num(nan=9e99).max().item()
                return f"off by {worst:g}"
    return ""


def _tensors(results: Any) -> list[Tensor]:
    listed = list(results) if isinstance(results, tuple | list) else [results]
    return [item for item in listed if isinstance(item, Tensor)]
