"""The arithmetic of sizes: what divides by zero or exceeds 64 bits is refused, in the binding and the fake kernel alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kit import sized

import opsmith
from opsmith.errors import ShapeError, SizeError

pytestmark = pytest.mark.compile

LEAST, MOST = -(1 << 63), (1 << 63) - 1
X = torch.zeros(3)
TOO_LARGE = "does not fit into 64 bits with"

CASES: list[tuple[opsmith.Operator, tuple[Any, ...], type[Exception], str]] = [
    (sized.quotient, (X, 5, 0), SizeError, "quotient(): the size n//m divides by zero with m = 0, n = 5"),
    (sized.remainder, (X, 5, 0), SizeError, "remainder(): the size n%m divides by zero with m = 0, n = 5"),
    (sized.quotient, (X, LEAST, -1), SizeError, f"the size n//m {TOO_LARGE} m = -1, n = {LEAST}"),
    (sized.product, (X, 1 << 32, 1 << 32), SizeError, f"the size n*m {TOO_LARGE} m = 4294967296, n = 4294967296"),
    (sized.product, (X, LEAST, -1), SizeError, f"the size n*m {TOO_LARGE} m = -1, n = {LEAST}"),
    (sized.difference, (X, LEAST, 1), SizeError, f"the size n-m+-m {TOO_LARGE} m = 1, n = {LEAST}"),
    (sized.difference, (X, 0, LEAST), SizeError, f"the size n-m+-m {TOO_LARGE} m = {LEAST}, n = 0"),
    (sized.difference, (X, 4, 3), ShapeError, "out would have size -2 in dimension 0: n-m+-m with"),
    (sized.solved, (X, -1, LEAST), ShapeError, "x has size 3 in dimension 0, which is not a*N+b for any N"),
    (sized.solved, (X, 0, 3), ShapeError, "x has size 3 in dimension 0, which is not a*N+b for any N"),
    (sized.compared, (X, X, 1 << 62, 0), SizeError, f"the size N*a+b {TOO_LARGE} N = 3, a = {1 << 62}, b = 0"),
    (sized.compared, (X, X, 1, MOST), SizeError, f"the size N*a+b {TOO_LARGE} N = 3, a = 1, b = {MOST}"),
]
IDS = [f"{operator.definition.name}-{index}" for index, (operator, *_) in enumerate(CASES)]
each_case = pytest.mark.parametrize(("operator", "args", "error", "words"), CASES, ids=IDS)


def raised_by(call: Callable[..., Any], *args: Any) -> Exception | None:
    try:
        call(*args)
    except Exception as error:
        return error
    return None


@each_case
def test_the_callable_says_what_was_computed(
    operator: opsmith.Operator, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    found = raised_by(operator, *args)
    assert type(found) is error
    assert words in str(found)


@each_case
def test_the_binding_and_the_fake_kernel_use_the_same_words(
    operator: opsmith.Operator, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    assert words in str(raised_by(operator.torch_op, *args))
    meta = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in args]
    assert words in str(raised_by(operator.torch_op, *meta))


def test_what_has_a_result_has_it() -> None:
    assert sized.remainder(X, LEAST, -1).shape == (0,)
    assert sized.quotient(X, LEAST, LEAST).shape == (1,)
    assert sized.product(X, LEAST, 0).shape == (0,)
    assert sized.solved(X, -1, 5).shape == (2,)
    assert sized.compared(X, X, 0, 3).shape == (3,)


def test_what_cannot_be_allocated_is_said_in_torch_s_words() -> None:
    with pytest.raises(RuntimeError, match="an output cannot be allocated") as raised:
        sized.product(X, 1 << 30, 1 << 30)
    if torch.__version__ >= "2.13":  # earlier ones print them
        assert str(4 << 60) in str(raised.value)


_NUMBERS = st.integers(-4, 4) | st.sampled_from([LEAST, LEAST + 1, MOST, MOST - 1, 1 << 32, -(1 << 32), 1 << 62])


@given(_NUMBERS, _NUMBERS)
def test_any_numbers_give_what_python_gives_or_are_refused(n: int, m: int) -> None:
    for operator, size in ((sized.quotient, lambda: n // m), (sized.remainder, lambda: n % m)):
        expected = size() if m != 0 else -1
        if 0 <= expected < 1 << 20:
            assert operator.torch_op(X, n, m).shape == (expected,)
        elif not 0 <= expected < 1 << 60:  # what lies between may be there, or exceed this machine's memory
            assert raised_by(operator.torch_op, X, n, m) is not None
