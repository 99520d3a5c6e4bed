"""How far off a kernel may be: enough for another order of operations, too little for a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.judging.tasks.symbols import guessed_signature
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.disagreement import Disagreement, to_one_side
from opsmith.subject.oracle import compare, expect
from opsmith.subject.subject import Subject, subject_of
from opsmith.subject.tolerance import _has_few_numbers, allowed_errors, reduction_length, without_known_digits

WIDE = [torch.float32, torch.float64]


@pytest.mark.parametrize(
    ("dtype", "units"), [(torch.float64, 100), (torch.float32, 40), (torch.float16, 3), (torch.bfloat16, 3)], ids=str
)
def test_a_few_roundings_of_the_result_are_allowed(dtype: torch.dtype, units: int):
    value, none = torch.ones(5, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    allowed = allowed_errors(value, none, none, none, dtype, length=1) / torch.finfo(dtype).eps
    assert bool((allowed >= 1).all())
    assert bool((allowed <= units).all())


def test_an_infinity_allows_nothing():
    value, none = torch.tensor([torch.inf, 1.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    assert bool(allowed_errors(value, none, none, none, torch.float32, length=1).isfinite().all())


def test_each_term_of_a_sum_may_be_flushed_to_zero():
    value, none = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    smallest = torch.finfo(torch.float32).smallest_normal
    for dtype in (torch.float32, torch.bfloat16):
        one, many = (float(allowed_errors(value, none, none, none, dtype, length=n)) / smallest for n in (0, 1000))
        assert (one, many) == pytest.approx((4, 1004), rel=0.01)
    # Those of half precision are none in float32, in which sums are made.
    half = float(allowed_errors(value, none, none, none, torch.float16, length=1000))
    assert half == pytest.approx(4 * 2.0**-24)


def test_discrete_results_are_right_or_wrong():
    value, none = torch.arange(3), torch.zeros(3, dtype=torch.float64)
    assert allowed_errors(value, none, none, none, None, length=1).tolist() == [0, 0, 0]


def _product(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: change(x @ x.t())


def _in_order(x: Tensor) -> Tensor:
    """The same product, of float32 sums of one term after another."""
    found = x.new_zeros(len(x), len(x))
    for column in x.t():
        found += column[:, None] * column
    return found


def _fixed_point(numbers: Tensor) -> Tensor:
    return torch.round(numbers * 2**40).to(torch.int64)


@pytest.mark.parametrize("values", ["normal", "mixed"])
def test_a_quantity_in_fixed_point_is_held_to_what_roundings_move(values: str):
    numbers = torch.randn(48, 200, generator=torch.Generator().manual_seed(3))
    numbers = numbers if values == "normal" else numbers * torch.exp(3 * numbers.flip(0))
    subject = _square(_product(_fixed_point))
    assert _judged(subject, lambda x: _fixed_point(_in_order(x)), numbers, values) is None
    assert _judged(subject, lambda x: torch.zeros(48, 48, dtype=torch.int64), numbers, values) is not None
    rounded = _judged(subject, lambda x: _fixed_point(_in_order(x.bfloat16().float())), numbers, values)
    assert rounded is not None
    assert rounded.allowed > 0


# Functions whose results are places, and move by anything where numbers are nearly equal.
PLACES: dict[str, Callable[[Tensor], Tensor]] = {
    "argsort": lambda x: x.argsort(1),
    "ranks": lambda x: x.argsort(1).argsort(1),
    "bins": lambda x: torch.bucketize(x.sin(), torch.linspace(-1, 1, 1000, dtype=x.dtype)),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_place_may_be_another_where_a_rounding_decides(name: str):
    numbers = torch.randn(150, 200, generator=torch.Generator().manual_seed(0))
    subject = _square(_product(PLACES[name]))
    assert not torch.equal(PLACES[name](_in_order(numbers)), PLACES[name](numbers @ numbers.t()))
    assert _judged(subject, lambda x: PLACES[name](_in_order(x)), numbers, "normal") is None


def test_no_length_of_a_sum_makes_everything_right():
    value, none = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    assert float(allowed_errors(value, none, none, none, torch.float32, length=1 << 40)) < 0.011


def test_without_symbols_the_sizes_that_no_result_has_are_the_length():
    numbers = torch.rand(1024, 1024, generator=torch.Generator().manual_seed(3))
    subject = _square(lambda x: x.sum(0))
    assert _judged(subject, lambda x: _last_sums(x.t()), numbers, "uniform") is None
    assert _judged(subject, lambda x: x.sum(0) * 1.005, numbers, "uniform") is not None


def _last_sums(terms: Tensor) -> Tensor:
    """Sums over the last dimension in one accumulator."""
    return torch.from_numpy(np.cumsum(terms.numpy(), axis=-1, dtype=np.float32)[..., -1].copy())


# What 131,072 terms are the products of: without an order and with one, of both signs and of one, and all equal.
LONG: dict[str, Callable[[torch.Generator], Tensor]] = {
    "normal": lambda random: torch.randn(4, 1 << 17, generator=random),
    "uniform": lambda random: torch.rand(4, 1 << 17, generator=random),
    "offset": lambda random: torch.randn(4, 1 << 17, generator=random) + 0.5,
    "slope": lambda random: torch.linspace(-1, 1, 1 << 17) * torch.rand(4, 1, generator=random),
    "equal": lambda random: torch.full((4, 1 << 17), 0.1),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_sum_may_have_one_accumulator(name: str):
    numbers = LONG[name](torch.Generator().manual_seed(3))
    other = torch.rand(len(numbers[0]), generator=torch.Generator().manual_seed(4))
    for factor in (1.0, other) if name != "equal" else (1.0,):
        rows = numbers * factor
        subject = _square(lambda x: x.sum(1))
        assert _judged(subject, _last_sums, rows, "normal") is None


def test_a_long_product_in_bfloat16_is_not_one_in_float32():
    numbers = LONG["normal"](torch.Generator().manual_seed(3))
    subject = _square(lambda x: x @ x.roll(1, 0).t())

    def in_order(x: Tensor) -> Tensor:
        return _last_sums(x[:, None] * x.roll(1, 0))

    assert _judged(subject, in_order, numbers, "normal") is None
    assert _judged(subject, lambda x: in_order(x.bfloat16().float()), numbers, "normal") is not None


def _square(function: Callable[[Tensor], Tensor]) -> Subject:
    return Subject("square", function, function, function, ("x",), ("cpu",), (), None)


def _vector(function: Callable[[Tensor], Tensor]) -> Subject:
    def reference(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return function(x)

    return subject_of(reference, reference=reference, devices=("cpu",))


def _rows(function: Callable[[Tensor], Tensor]) -> Subject:
    def reference(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        return function(x)

    return subject_of(reference, reference=reference, devices=("cpu",))


def _case(numbers: Tensor, values: str) -> Case:
    dtype = str(numbers.dtype).removeprefix("torch.")
    return Case({"x": TensorRecipe(tuple(numbers.shape), dtype, values=values, given=numbers)})


def _judged(
    subject: Subject, kernel: Callable[[Tensor], Tensor], numbers: Tensor, values: str = "mixed"
) -> Disagreement | None:
    case = _case(numbers, values)
    given = case.build()
    return compare([kernel(given["x"])], expect(subject, case, given))


def _mixed(dtype: torch.dtype, *last: int) -> Tensor:
    shape = last or (200,)
    return TensorRecipe(shape, str(dtype).removeprefix("torch."), values="mixed", seed=3).numbers()


# (reference, kernel): wrong for small results, by less than a rounding of the largest one.
TOO_FEW_DIGITS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "expm1": (torch.expm1, lambda x: x.exp() - 1),
    "sigmoid": (torch.sigmoid, lambda x: torch.where(x < -16, 0.0, torch.sigmoid(x))),
    "gelu": (torch.nn.functional.gelu, lambda x: torch.where(x < -4, 0.0, torch.nn.functional.gelu(x))),
    "tanh": (torch.tanh, lambda x: torch.where(x.abs() < 4e-4, 0.0, torch.tanh(x))),
}


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("name", TOO_FEW_DIGITS)
def test_a_small_element_beside_large_ones_has_to_be_right(name: str, dtype: torch.dtype):
    reference, kernel = TOO_FEW_DIGITS[name]
    numbers = _mixed(dtype)
    numbers[:4] = torch.tensor([-17.5, -5.25, 3e-4, -1e-10])
    assert _judged(_vector(reference), reference, numbers) is None
    assert _judged(_vector(reference), kernel, numbers) is not None


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_a_small_element_of_a_row_has_to_be_right(dtype: torch.dtype):
    subject, numbers = _rows(lambda x: x.softmax(1)), _mixed(dtype, 9, 25)

    def pruned(x: Tensor) -> Tensor:
        return torch.where(x.softmax(1) < 1e-8, 0.0, x.softmax(1))

    assert _judged(subject, lambda x: (x - x.logsumexp(1, keepdim=True)).exp(), numbers) is None
    assert _judged(subject, pruned, numbers) is not None


def _recurrence(x: Tensor) -> Tensor:
    rows = [x[:, 0]]
    for step in range(1, x.shape[1]):
        rows.append(0.9 * rows[-1] + 0.1 * x[:, step])
    return torch.stack(rows, 1)


def _blocked(x: Tensor) -> Tensor:
    """The same by a product with the filter's response."""
    steps = torch.arange(x.shape[1], dtype=x.dtype)
    response = torch.where(steps[:, None] >= steps, 0.9 ** (steps[:, None] - steps), 0.0)
    weights = torch.full_like(steps, 0.1)
    weights[0] = 1
    return x @ (response * weights).t()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("values", ["normal", "mixed"])
def test_a_recurrence_may_round_in_another_order(values: str, dtype: torch.dtype):
    numbers = _mixed(dtype, 16, 65) if values == "mixed" else torch.randn(16, 65, dtype=dtype)
    assert _judged(_rows(_recurrence), _blocked, numbers, values) is None


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_a_sum_may_have_any_order(dtype: torch.dtype):
    assert _judged(_rows(lambda x: x.cumsum(1)), lambda x: x.flip(0).cumsum(1).flip(0), _mixed(dtype, 9, 65)) is None
    assert _judged(
        _rows(lambda x: x.cumsum(1)), lambda x: x.cumsum(1).float().bfloat16().to(dtype), _mixed(dtype, 9, 65)
    )


@pytest.mark.parametrize("layout", ["expanded", "contiguous"])
def test_the_roundings_of_equal_terms_add_up(layout: str) -> None:
    # Of 400 seeds the one whose sum is off by most, 63 units.
    recipe = TensorRecipe((520,), "float32", layout="expanded", seed=251)
    if layout == "contiguous":
        recipe = TensorRecipe((520,), "float32", given=recipe.build("cpu"))
    case = Case({"x": recipe})
    x = case.build()["x"]
    one_by_one = torch.from_numpy(np.cumsum(x.numpy(), dtype=np.float32))
    expected = expect(_vector(lambda x: x.cumsum(0)), case, {"x": x})
    assert compare([one_by_one], expected) is None
    assert compare([one_by_one * (1 + 300 * torch.finfo(torch.float32).eps)], expected) is not None


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_a_better_kernel_than_the_reference_is_right(dtype: torch.dtype):
    numbers = torch.tensor([18.0, 20.0, 40.0, -30.0, 0.5, 1e-3], dtype=dtype)
    assert _judged(_vector(lambda x: 1 - torch.tanh(x) ** 2), lambda x: 1 / torch.cosh(x) ** 2, numbers) is None
    # In PyTorch's gelu of -7 two ones cancel, inside of a single function.
    tail = torch.tensor([-9.0, -7.0, -6.0, 3.0, 90.0, -5.0], dtype=dtype)

    def by_erfc(x: Tensor) -> Tensor:
        return 0.5 * x * torch.special.erfc(-x / 2**0.5)

    assert _judged(_vector(torch.nn.functional.gelu), by_erfc, tail) is None


# (reference, kernel): equal but for ties.
OTHER_TIES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "round": (torch.round, lambda x: torch.floor(x + 0.5)),
    "floor": (torch.floor, lambda x: torch.ceil(x) - 1),
    "step": (lambda x: (x > 1).to(x.dtype), lambda x: (x >= 1).to(x.dtype)),
    "scaled": (lambda x: torch.round(x * 4) / 4, lambda x: torch.floor(x * 4 + 0.5) / 4),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OTHER_TIES)
def test_ties_are_decided_as_the_reference_decides_them(name: str, dtype: torch.dtype):
    reference, kernel = OTHER_TIES[name]
    ties = torch.tensor([-2.5, -1.0, 0.0, 0.5, 1.0, 0.125, 0.625, 3.0, 0.3], dtype=dtype)
    assert _judged(_vector(reference), reference, ties, "ties") is None
    assert _judged(_vector(reference), kernel, ties, "ties") is not None


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_a_jump_that_hangs_on_a_rounding_may_go_either_way(dtype: torch.dtype):
    # 0.7 / 0.1 is 7 or a little less, and not exact either way.
    numbers = torch.tensor([0.7, 0.3, 0.6, 1.1, 2.3], dtype=dtype)
    reciprocal = 1 / torch.tensor(0.1, dtype=dtype)
    subject = _vector(lambda x: torch.floor(x / 0.1))
    assert _judged(subject, lambda x: torch.floor(x * reciprocal), numbers, "normal") is None


def test_nan_of_a_padding_is_not_asked_for_and_other_nan_is():
    numbers = torch.tensor([1.0, torch.inf, 2.0, 3.0, 4.0, 5.0])

    def padded(x: Tensor) -> Tensor:
        weights = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=x.dtype)
        return (x.reshape(-1, 2) @ weights).reshape(-1)

    without = torch.tensor([1.0, torch.inf, 2.0, 3.0, 4.0, 5.0])
    assert _judged(_vector(padded), lambda x: without, numbers, "special") is None
    assert _judged(_vector(lambda x: x - x), torch.zeros_like, numbers, "special") is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("made", "is_few"),
    [
        (lambda random: torch.randn(1 << 18, generator=random), False),
        (lambda random: torch.randn(1 << 18, generator=random).relu(), False),  # half of them are 0
        (lambda random: torch.randn(1 << 16, generator=random).repeat(4), False),
        (lambda random: torch.randn(1 << 14, generator=random).repeat(16), True),
        (lambda random: torch.randint(0, 200, (1 << 18,), generator=random), True),
        (lambda random: torch.ones(1 << 18), True),
    ],
)
def test_few_numbers_of_a_large_tensor_are_seen_in_a_part(
    made: Callable[[torch.Generator], Tensor], is_few: bool, dtype: torch.dtype
) -> None:
    assert _has_few_numbers(made(torch.Generator().manual_seed(3)).to(dtype)) is is_few


@pytest.mark.parametrize("is_pointwise", [False, True])
def test_quotients_that_leave_float64_may_be_anything_but_those_of_one_number(is_pointwise: bool):
    """(1 / x - 1 / y) / x is inf - inf in one order of things and not in another; 1 / x is inf."""
    subject = _vector(lambda x: 1 / x if is_pointwise else (1 / x - 1 / x.flip(0)) / x)
    case = _case(torch.tensor([1.0, 1.0, 1.5]).double() * torch.finfo(torch.float64).smallest_normal / 8, "tiny")
    expected = expect(subject, case, case.build())
    wrong = compare([torch.zeros(3, dtype=torch.float64)], expected)
    assert (wrong is not None) == is_pointwise


def test_a_mask_beside_other_numbers_makes_no_equal_terms() -> None:
    """A sum of products with ones and zeros is of as many different terms as its other factor has."""
    x, kept = torch.randn(64, 4096), (torch.rand(4096) < 0.8).float()
    subject = subject_of(lambda x, y: (x * y).sum(1), reference=lambda x, y: (x * y).sum(1), examples=[(x, kept)])
    case = Case({name: TensorRecipe(tuple(one.shape), "float32", given=one) for name, one in (("x", x), ("y", kept))})
    few = Case({"x": TensorRecipe((64, 4096), "float32", given=x.sign()), "y": case.arguments["y"]})
    results = [torch.zeros(64)]
    assert reduction_length(subject, few, results) == 4096
    assert reduction_length(subject, case, results) < 4096


def test_windows_are_no_terms_of_a_sum() -> None:
    def pooled(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C _ _"]:
        return torch.nn.functional.max_pool2d(x, 2)

    x = torch.randn(2, 4, 127, 127)
    signature = guessed_signature("pooled", pooled, {"x": x})
    assert signature is not None
    subject = subject_of(pooled, reference=pooled, examples=[(x,)], devices=("cpu",))
    subject = replace(subject, signature=signature.signature)
    case = Case({"x": TensorRecipe(tuple(x.shape), "float32", given=x)})
    assert reduction_length(subject, case, [pooled(x)]) < 200


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_off_to_both_sides(dtype: torch.dtype) -> None:
    x = torch.randn(40, 64, dtype=dtype)

    def doubled(x: Tensor) -> Tensor:
        return x * 2.2

    subject = _vector(doubled)
    expected = expect(subject, Case({"x": TensorRecipe((40, 64), str(dtype)[6:], given=x)}), {"x": x})
    wide = x.double() * 2.2
    assert to_one_side([wide.to(dtype)], expected) is None
    off = to_one_side([(wide * (1 + 2 * torch.finfo(dtype).eps)).to(dtype)], expected)
    assert off is not None
    assert "off by +" in str(off)
    assert to_one_side([wide.float()], expected) is None  # in float32 a sum has an order


def test_a_result_without_known_digits_may_be_its_opposite() -> None:
    noise = torch.tensor([0.0, 1e-3, 0.3, 0.5], dtype=torch.float64)
    value = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert without_known_digits(noise, value).tolist() == [0.0, 1e-3, 1.0, 1.0]
    assert without_known_digits(noise, 0 * value).tolist() == noise.tolist()
