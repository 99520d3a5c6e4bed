"""How an operator may be called, and what a wrong call raises: the same typed error on every path."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compose_kit.keyword import powers
from compose_kit.table import Case, each_case
from torch import Tensor
from torch._subclasses import FakeTensorMode

from opsmith.errors import ArgumentTypeError, DtypeError, ShapeError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile


def names(case: Case) -> list[str]:
    """The tensors; what else there is has defaults."""
    return [parameter.name for parameter in case.operator.definition.signature.tensors]


@each_case
def test_keyword_arguments_in_every_order(case: Case):
    arguments = case.make()
    expected = case.found(*arguments)
    given = dict(zip(names(case), arguments, strict=True))
    # All orders for few arguments; for many, every rotation.
    count = len(given)
    orders = (
        itertools.permutations(given) if count < 4 else [[*given][start:] + [*given][:start] for start in range(count)]
    )
    for order in orders:
        torch.testing.assert_close(_call(case, **{name: given[name] for name in order}), expected)


@each_case
def test_positions_first_and_keywords_after(case: Case):
    arguments = case.make()
    expected = case.found(*arguments)
    for count in range(len(arguments)):
        rest = dict(zip(names(case)[count:], arguments[count:], strict=True))
        torch.testing.assert_close(_call(case, *arguments[:count], **rest), expected)


def _call(case: Case, *args: Tensor, **kwargs: Tensor) -> tuple[Tensor, ...]:
    results = case.operator(*args, **kwargs)
    return results if isinstance(results, tuple) else (results,)


def plain(*arguments: Any) -> tuple[Any, ...]:
    return arguments


def with_gradient(*arguments: Any) -> tuple[Any, ...]:
    return tuple(a.clone().requires_grad_() if _is_float(a) else a for a in arguments)


def on_meta(*arguments: Any) -> tuple[Any, ...]:
    return tuple(a.to("meta") if isinstance(a, Tensor) else a for a in arguments)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


class _Own(Tensor):
    pass


def of_subclass(*arguments: Any) -> tuple[Any, ...]:
    return tuple(a.as_subclass(_Own) if isinstance(a, Tensor) else a for a in arguments)


PATHS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "plain": plain, "with a gradient": with_gradient, "meta": on_meta, "subclass": of_subclass,
}  # fmt: skip

f = torch.ones
# The operator, its arguments, the error and the words that must be in it.
WRONG: dict[str, tuple[Any, tuple[Any, ...], type[Exception], str]] = {
    "no arguments": (add2, (), ArgumentTypeError, r"add2\(\)"),
    "one too few": (add2, (f(3),), ArgumentTypeError, r"add2\(\).*b"),
    "one too many": (add2, (f(3), f(3), f(3)), ArgumentTypeError, r"add2\(\)"),
    "a number for a tensor": (add2, (f(3), 1.0), ArgumentTypeError, r"add2\(\): b "),
    "None for a tensor": (sigmoid, (None,), ArgumentTypeError, r"sigmoid\(\): x "),
    "a list for a tensor": (sigmoid, ([1.0],), ArgumentTypeError, r"sigmoid\(\): x "),
    "a string for a tensor": (lltm_gates, (f(2, 12), "cell"), ArgumentTypeError, r"lltm_gates\(\): cell "),
    "another shape": (add2, (f(3), f(4)), ShapeError, r"add2\(\): b "),
    "another rank": (add2, (f(3), f(1, 3)), ShapeError, r"add2\(\): b "),
    "a size of another argument": (lltm_gates, (f(2, 12), f(2, 5)), ShapeError, r"lltm_gates\(\): .* 3\*S"),
    "a batch of another argument": (lltm_gates, (f(2, 12), f(3, 4)), ShapeError, r"lltm_gates\(\): .*B"),
    "too few dimensions": (lltm_gates, (f(12), f(2, 4)), ShapeError, "gates has 1 dimension, expected 2"),
    "a weight that does not fit": (
        lltm_cell, (f(3, 2), f(3, 4), f(3, 4), f(12, 7), f(12)), ShapeError, r"lltm_cell\(\): weight .* S\+I"
    ),
    "two element types": (add2, (f(3), f(3).double()), DtypeError, "b is float64, expected float32 as a"),
    "an element type that is not served": (sigmoid, (f(3, dtype=torch.int64),), DtypeError, r"sigmoid\(\): x is int64"),
    "complex numbers": (add2, (f(3, dtype=torch.complex64),) * 2, DtypeError, "a is complex64"),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_raise_typed_errors_on_every_path(mistake: str, path: str):
    operator, arguments, error, words = WRONG[mistake]
    with pytest.raises(error, match=words):
        operator(*PATHS[path](*arguments))


@pytest.mark.parametrize("mistake", [name for name, wrong in WRONG.items() if wrong[2] is not ArgumentTypeError])
def test_wrong_shapes_and_types_raise_under_fake_tensors_vmap_and_grad(mistake: str):
    operator, arguments, error, words = WRONG[mistake]
    with FakeTensorMode() as mode, pytest.raises(error, match=words):
        operator(*map(mode.from_tensor, arguments))
    with pytest.raises(error, match=words.partition(r"\(\)")[0]):
        torch.func.vmap(operator)(*(torch.stack([argument] * 2) for argument in arguments))
    if all(map(_is_float, arguments)):
        with pytest.raises(error, match=words):
            torch.func.grad(lambda *given: operator(*given)[0].sum())(*arguments)


def test_unknown_and_repeated_keywords():
    with pytest.raises(ArgumentTypeError, match=r"add2\(\).*c"):
        add2(f(3), b=f(3), c=f(3))
    with pytest.raises(ArgumentTypeError, match=r"add2\(\).*a"):
        add2(f(3), a=f(3))


def test_a_failed_call_leaves_nothing_behind():
    x = torch.ones(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(ShapeError):
            add2(x, torch.ones(4))
    add2(x, x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        assert not add2(x, x).requires_grad


def test_arguments_that_are_keyword_only_have_defaults_or_stand_in_any_order():
    x, y = torch.randn(3), torch.randn(3)
    expected = powers.reference(x, y, 3, scale=0.5, shift=2, flip=True)
    values: dict[str, Any] = {"y": y, "times": 3, "scale": 0.5, "shift": 2, "flip": True}
    for order in itertools.permutations(values):
        torch.testing.assert_close(powers(x, **{name: values[name] for name in order}), expected)
    for count in range(len(values) + 1):
        for chosen in itertools.combinations(("times", "scale", "shift", "flip"), min(count, 4)):
            given = {name: values[name] for name in chosen}
            torch.testing.assert_close(powers(x, y, **given), powers.reference(x, y, **given))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"times": 1.5}, "times"),
        ({"times": "2"}, "times"),
        ({"scale": "half"}, "scale"),
        ({"scale": None}, "scale"),
        ({"flip": "yes"}, "flip"),
        ({"shift": torch.ones(2)}, "shift"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_numbers_raise_typed_errors(kwargs: dict[str, Any], words: str):
    for requires_grad in (False, True):
        with pytest.raises(ArgumentTypeError, match=words):
            powers(torch.ones(3, requires_grad=requires_grad), torch.ones(3), **kwargs)


def test_numbers_of_other_types_that_stand_for_numbers():
    import numpy as np

    x = torch.randn(3)
    expected = powers(x, x, 2, scale=1.0)
    for times, scale in ((np.int64(2), np.float64(1.0)), (2, 1), (torch.tensor(2), torch.tensor(1.0))):
        torch.testing.assert_close(powers(x, x, times, scale=scale), expected)


def test_a_keyword_of_the_gradient_path():
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x, y: powers(x, y, 3, scale=0.5, flip=True), (x, y))
    torch.autograd.gradgradcheck(lambda x, y: powers(x, y, 3, scale=0.5, flip=True), (x, y))
