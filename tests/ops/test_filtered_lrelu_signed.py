"""filtered_lrelu_signed, whose gradient goes by two bits of each number: against the operator that computes u again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from opsmith.errors import ArgumentValueError, DtypeError
from opsmith.ops.filtered_lrelu import filtered_lrelu_signed, filtered_lrelu_sized, functions
from opsmith.ops.filtered_lrelu.oversampling import Activation, Oversampling, upsampled
from opsmith.ops.filtered_lrelu.signed import SignSizes, has_signs, sign_sizes

pytestmark = pytest.mark.compile

FORMS = [(2, 2, False), (4, 2, False), (2, 4, False), (2, 2, True), (4, 2, True)]


def call(up: int, down: int, is_full: bool, pad: int = 0, clamp: float | None = 2.0) -> tuple[Any, ...]:
    """Arguments of both operators: numbers of few digits, whose sums of products are exact."""
    random = torch.Generator().manual_seed(pad)

    def coarse(*shape: int) -> Tensor:
        return torch.randint(-8, 9, shape, generator=random) * 0.125

    fd = coarse(6 * down, 6 * down) if is_full else coarse(2, 6 * down)
    oversampling = Oversampling(7, 10, up, down, 6 * up + pad, 6 * up + 1 - pad, True, not is_full, pad % 2 == 0)
    return coarse(2, 3, 9, 11), coarse(2, 6 * up), fd, coarse(3), oversampling, Activation(1.5, 0.25, clamp)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("pad", range(4))
def test_agrees_with_what_computes_u_again(form: tuple[int, int, bool], pad: int) -> None:
    x, fu, fd, b, oversampling, activation = call(*form, pad, None if pad == 3 else 2.0)
    sizes = sign_sizes(9, 11, fd, oversampling)
    found = []
    for operator, more in ((filtered_lrelu_signed, (sizes,)), (filtered_lrelu_sized, ())):
        leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
        y = operator(leaves[0], fu, fd, leaves[1], oversampling, activation, *more)
        found.append((y, *torch.autograd.grad(y, leaves, torch.ones_like(y) * 0.5)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_second_gradients(form: tuple[int, int, bool]) -> None:
    x, fu, fd, b, oversampling, activation = call(*form)
    sizes = sign_sizes(9, 11, fd, oversampling)
    second = []
    for operator, more in ((filtered_lrelu_signed, (sizes,)), (filtered_lrelu_sized, ())):
        leaf, weight = x.clone().requires_grad_(), torch.ones((), requires_grad=True)
        y = operator(leaf, fu, fd, b, oversampling, activation, *more) * weight
        (first,) = torch.autograd.grad(y.sum(), leaf, create_graph=True)
        second.append(torch.autograd.grad(first.pow(2).sum(), weight)[0])
    assert second[0] != 0
    torch.testing.assert_close(*second)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("pad", range(4))
def test_words_have_the_bits_of_four_rows_and_columns(form: tuple[int, int, bool], pad: int) -> None:
    up, down, _ = form
    x, fu, fd, b, o, a = call(*form, pad)
    sizes = sign_sizes(9, 11, fd, o)
    numbers = [getattr(one, name) for one in (o, a, sizes) for name in one.__dataclass_fields__]
    _, signs = filtered_lrelu_signed.torch_op(x, fu, fd, b, *numbers, True)
    u = upsampled(x, fu, fd, b, o)
    assert signs.shape == (2, 3, sizes.sign_rows, sizes.sign_columns)
    top, left = ((-one - 1) % up // down * down for one in (o.pad_y, o.pad_x))
    for row in range(4 * sizes.sign_rows):
        for column in range(4 * sizes.sign_columns):
            bits = signs[1, 2, row // 4, column // 4].item() >> (8 * (row % 4) + 2 * (column % 4)) & 3
            inside = 0 <= row - top < u.shape[2] and 0 <= column - left < u.shape[3]
            number = u[1, 2, row - top, column - left].item() if inside else 0
            is_blocked = not inside or abs(number * (1.5 if number > 0 else 1.5 * 0.25)) >= 2.0
            assert bits == (2 if is_blocked else number > 0)


def test_what_does_not_fit_is_refused() -> None:
    x, fu, fd, b, oversampling, activation = call(2, 2, False)
    good = sign_sizes(9, 11, fd, oversampling)
    with pytest.raises(ArgumentValueError, match="sign_rows and sign_columns are 1 and 2, these filters have signs of"):
        filtered_lrelu_signed(x, fu, fd, b, oversampling, activation, SignSizes(9, 11, 1, 2))
    for filters in ((fu[:, 1:], fd), (fu, fd[:, :-1])):
        with pytest.raises(ArgumentValueError, match="expected 6 taps for each of their factor"):
            filtered_lrelu_signed(x, *filters, b, oversampling, activation, good)
    with pytest.raises(DtypeError, match="float64"):
        filtered_lrelu_signed(x.double(), fu, fd, b.double(), oversampling, activation, good)


def test_which_calls_it_is_for() -> None:
    def image(dtype: torch.dtype = torch.float16, width: int = 40, is_cuda: bool = True) -> Any:
        return SimpleNamespace(is_cuda=is_cuda, dtype=dtype, shape=(2, 3, 40, width))

    short, long, full = torch.ones(12), torch.ones(24), torch.ones(12, 12)
    for fu, fd, up, down in ((short, short, 2, 2), (long, short, 4, 2), (short, long, 2, 4), (long, full, 4, 2)):
        assert has_signs(image(), fu, fd, up, down)
    for fu, fd, up, down in (
        (short, short, 2, 1),
        (short, short, 4, 2),
        (full, short, 2, 2),
        (short, torch.ones(24, 24), 2, 4),
        (torch.ones(8), short, 2, 2),
        (torch.ones(6), torch.ones(6), 1, 1),
    ):
        assert not has_signs(image(), fu, fd, up, down)
    for x in (image(torch.float64), image(width=1 << 28), image(is_cuda=False)):
        assert not has_signs(x, short, short, 2, 2)


def public_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Tensor, tuple[Any, ...]]]:
    """Calls of `filtered_lrelu` that are sent to this operator, as on a GPU: the function, x, and other arguments."""
    monkeypatch.setattr(functions, "has_signs", lambda *_: True)
    found = []
    for up, down, is_full in FORMS:
        x, fu, fd, b, *_ = call(up, down, is_full)
        filters = fu[0], fd if is_full else fd[0]
        pads = [6 * up, 6 * up - 1, 6 * up + 2, 6 * up]
        found.append((functions.filtered_lrelu, x, (*filters, b, up, down, pads, 1.5, 0.25, 2.0)))
    return found


def test_the_function_gives_it_the_sizes_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for function, x, arguments in public_calls(monkeypatch):
        results = []
        for impl in ("cuda", "ref"):
            leaf = x.clone().requires_grad_()
            y = function(leaf, *arguments, impl=impl)
            results.append((y, torch.autograd.grad(y.sum(), leaf)[0]))
        torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_compiler_traces_it_whole(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, _, arguments = public_calls(monkeypatch)[1]

    def squared(x: Tensor) -> Tensor:
        return function(x, *arguments).square()

    compiled = torch.compile(squared, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for height in (9, 12) if dynamic else (9,):
        x = torch.randn(2, 3, height, 11)
        results = []
        for one in (compiled, squared):
            leaf = x.clone().requires_grad_()
            y = one(leaf)
            results.append((y, torch.autograd.grad(y.sum(), leaf)[0]))
        torch.testing.assert_close(*results)
