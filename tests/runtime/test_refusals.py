"""Unfit arguments: a typed exception that names argument, found and expected from the callable, the same words as a
RuntimeError from torch.ops, where the binding or the fake kernel finds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from kit import arguments, elementwise, natives, shapes

import opsmith
from opsmith.errors import ArgumentTypeError, DeviceError, DtypeError, ShapeError, SizeError

pytestmark = pytest.mark.compile

F = torch.zeros
IMAGE, BOXES, BATCH = F(2, 3, 4, 4), F(5, 4), F(5, dtype=torch.int64)
META = torch.device("meta")
NOT_BROADCAST = "; sizes are not broadcast here: pass what torch.broadcast_tensors returns"

CASES: list[tuple[opsmith.Operator, tuple[Any, ...], type[Exception], str]] = [
    # ranks
    (shapes.row_max, (F(3),), ShapeError, 'row_max(): x has 1 dimension, expected 2: Float[Tensor, "B _"]'),
    (shapes.row_max, (F(3, 4, 5),), ShapeError, "row_max(): x has 3 dimensions, expected 2"),
    (shapes.row_sums, (F(()),), ShapeError, "row_sums(): x has 0 dimensions, expected at least 1"),
    (shapes.affine, (F(3), F(1)), ShapeError, 'factor has 1 dimension, expected 0: Float[Tensor, ""]'),
    (arguments.shift, (F(2, 3), F(3, 1)), ShapeError, "shift(): bias has 2 dimensions, expected 1"),
    (arguments.pyramid, ([F(1, 1, 2, 2), F(1, 1)], F(1)), ShapeError, "pyramid(): levels has 2 dimensions, expected 4"),
    # sizes
    (
        arguments.shift,
        (F(2, 3), F(4)),
        ShapeError,
        "bias has size 4 in dimension 0, expected C = 3 (from x)",
    ),
    (arguments.shift, (F(2, 3), None, F(3)), ShapeError, "rows has size 3 in dimension 0, expected B = 2"),
    (arguments.crop, (IMAGE, F(5, 3), BATCH, 1, 1), ShapeError, "boxes has size 3 in dimension 1, expected 4"),
    (arguments.crop, (IMAGE, BOXES, BATCH[1:], 1, 1), ShapeError, "batch has size 4 in dimension 0, expected R = 5"),
    (shapes.split_gates, (F(2, 7), F(9)), ShapeError, "gates has size 7 in dimension 1, which is not 3*S for any S"),
    (shapes.split_gates, (F(2, 9), F(2)), ShapeError, "rest has size 2 in dimension 0, which is not S+I for any I"),
    (shapes.outer, (F(2, 3), F(4, 3)), ShapeError, "y has the sizes (4) for *batch, expected (2) (from x)"),
    (shapes.outer, (F(2, 3), F(3)), ShapeError, "y has the sizes () for *batch, expected (2) (from x)"),
    (elementwise.axpy, (None, F(2, 3), F(3, 2)), ShapeError, "y has the sizes (3, 2) for *n, expected (2, 3) (from x)"),
    (
        elementwise.axpy,
        (F(1), F(3), F(3)),
        ShapeError,
        f"bias has the sizes (1) for *n, expected (3) (from x){NOT_BROADCAST}",
    ),
    (
        elementwise.axpy,
        (None, F(2, 3), F(3)),
        ShapeError,
        f"y has the sizes (3) for *n, expected (2, 3) (from x){NOT_BROADCAST}",
    ),
    (
        arguments.pyramid,
        ([F(1, 2, 2, 2), F(1, 3, 1, 1)], F(2)),
        ShapeError,
        "levels has size 3 in dimension 1, expected C = 2",
    ),
    (arguments.pyramid, ([], F(2)), ShapeError, "pyramid(): levels is an empty list"),
    (arguments.crop, (IMAGE, BOXES, BATCH, -1, 2), ShapeError, "out would have size -1 in dimension 2: pooled_h with"),
    (
        shapes.upfir,
        (F(1, 2), F(5), 1, 1, 0, 0),
        ShapeError,
        "out would have size -2 in dimension 1: (H*up+pad0+pad1-kh)",
    ),
    (shapes.upfir, (F(1, 2), F(2), 1, 0, 0, 0), SizeError, "divides by zero with H = 2, down = 0"),
    # element types
    (
        shapes.row_max,
        (F(2, 2, dtype=torch.int32),),
        DtypeError,
        "x is int32, expected one of float16, bfloat16, float32",
    ),
    (arguments.shift, (F(2, 3), F(3).double()), DtypeError, "bias is float64, expected float32 as x"),
    (arguments.crop, (IMAGE, BOXES.half(), BATCH, 1, 1), DtypeError, "boxes is float16, expected float32"),
    (arguments.crop, (IMAGE, BOXES, BATCH.char(), 1, 1), DtypeError, "batch is int8, expected one of int32, int64"),
    (arguments.pick, (F(2).half(), F(1).short(), F(1).half()), DtypeError, "x is float16, expected one of float64, fl"),
    (
        arguments.pyramid,
        ([F(1, 1, 1, 1), F(1, 1, 1, 1).double()], F(1)),
        DtypeError,
        "levels is float64, expected float32 as levels",
    ),
    (elementwise.select, (F(2) > 0, F(2), torch.eye(2)[0].to_sparse()), ArgumentTypeError, "y has the layout torch.sp"),
    (elementwise.select, (F(2), F(2), F(2)), DtypeError, "select(): mask is float32, expected bool"),
    # devices
    (arguments.shift, (F(2, 3), F(3, device=META)), DeviceError, "shift(): bias is on meta, but x is on cpu"),
    (arguments.shift, (F(2, 3, device=META), F(3)), DeviceError, "shift(): bias is on cpu, but x is on meta"),
    # native kernels have the same checks
    (natives.linear, (F(2, 3), F(4, 5)), ShapeError, "linear(): weight has size 5 in dimension 1, expected I = 3"),
    (natives.positives, (F(2, 3),), ShapeError, "positives(): x has 2 dimensions, expected 1"),
]
IDS = [f"{operator.definition.name}-{words[:40]}" for operator, _, _, words in CASES]


@pytest.mark.parametrize(("operator", "args", "error", "words"), CASES, ids=IDS)
def test_the_callable_raises_a_typed_exception(
    operator: opsmith.Operator, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        operator(*args)
    assert type(raised.value) is error
    assert words in str(raised.value)


@pytest.mark.parametrize(("operator", "args", "error", "words"), CASES, ids=IDS)
def test_torch_ops_gives_the_same_words(
    operator: opsmith.Operator, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises((RuntimeError, error)) as raised:
        operator.torch_op(*args)
    assert words in str(raised.value)


@pytest.mark.parametrize(("operator", "args", "error", "words"), CASES, ids=IDS)
def test_the_fake_kernel_refuses_the_same(
    operator: opsmith.Operator, args: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    def to_meta(value: Any) -> Any:
        if isinstance(value, list):
            return [to_meta(item) for item in value]
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    if error is DeviceError:
        pytest.skip("on one device there is nothing to mix")
    with pytest.raises(error) as raised:
        operator(*map(to_meta, args))
    assert words in str(raised.value)


@pytest.mark.parametrize("sizes", [(2,), (3, 3), (2, 2, 2)], ids=str)
def test_no_broadcasting_is_advised_where_it_would_not_help(sizes: tuple[int, ...]) -> None:
    for call in (elementwise.axpy, elementwise.axpy.torch_op):
        with pytest.raises(RuntimeError if call is not elementwise.axpy else ShapeError) as raised:
            call(None, F(2, 3), F(sizes))
        assert "expected (2, 3) (from x)" in str(raised.value)
        assert "broadcast" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (arguments.shift, 'x is missing: a tensor, Float[Tensor, "B C"]'),
        (lambda: arguments.shift(bias=F(3)), "x is missing"),
        (lambda: arguments.shift(F(2, 3), baas=F(3)), "there is no argument baas; it takes x, bias, rows"),
        (lambda: arguments.shift(F(2, 3), x=F(3)), "x is given twice, by position and by name"),
        (lambda: arguments.shift(F(2, 3), None, None, 4), "got 4 positional arguments, takes at most 3: x, bias, rows"),
        (lambda: arguments.shift("abc"), "x is str 'abc', expected a tensor"),
        (lambda: arguments.shift(None), "x is NoneType None, expected a tensor"),
        (lambda: arguments.shift(F(2, 3), 3.5), "bias is float 3.5, expected a tensor or None"),
        (lambda: arguments.pyramid(F(1), F(1)), "levels is Tensor"),
        (lambda: arguments.pyramid([F(1, 1, 1, 1), None], F(1)), "expected a list of tensors"),
        (lambda: arguments.crop(IMAGE, BOXES, BATCH, 1.5, 1), "pooled_h is float 1.5, expected an int"),
        (lambda: arguments.crop(IMAGE, BOXES, BATCH, "1", 1), "pooled_h is str '1', expected an int"),
        (lambda: scalars(f="x"), "f is str 'x', expected a float"),
        (lambda: scalars(b="x"), "b is str 'x', expected a bool"),
        (lambda: scalars(s=3), "s is int 3, expected a str"),
        (lambda: scalars(i=2**63), "i is int 9223372036854775808, expected an int; it needs more than 64 bits"),
        (lambda: scalars(i=10**5000), "i is int of 16610 bits, expected an int; it needs more than 64 bits"),
        (lambda: scalars(oi=-(2**63) - 1), "expected an int or None; it needs more than 64 bits"),
        (lambda: scalars(ints=[1, 2**63]), "expected a list of ints; it needs more than 64 bits"),
        (lambda: scalars(f=10**400), "f is int of 1329 bits, expected a float; it needs more than 64 bits"),
        (lambda: scalars(f=1j), "f is complex 1j, expected a float"),
        (lambda: scalars(f=torch.ones(2)), "f is Tensor float32 [2], expected a float"),
        (lambda: scalars(b=None), "b is NoneType None, expected a bool"),
        (lambda: scalars(b=0.5), "b is float 0.5, expected a bool"),
        (lambda: scalars(b=torch.tensor(0.5)), "b is Tensor float32 [], expected a bool"),
        (lambda: scalars(b=[]), "b is list [], expected a bool"),
        (lambda: scalars(ob=1.5), "ob is float 1.5, expected a bool or None"),
        (lambda: scalars(s=b"a"), "s is bytes b'a', expected a str"),
        (lambda: scalars(s="a\udc80"), "half of a surrogate pair, which UTF-8 cannot encode"),
        (lambda: scalars(x=numpy.ones((3, 4))), "x is ndarray float64 [3, 4], expected a tensor"),
        (lambda: scalars(x=numpy.ones(3)), "; torch.from_numpy makes a tensor of it"),
        (lambda: scalars(x=[1.0] * 10**6), "x is list [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...], expected a tensor"),
        (lambda: scalars(x=2), "; torch.tensor makes a tensor of it"),
        (lambda: scalars(ints=torch.tensor([1])), "ints is Tensor int64 [1], expected a list of ints"),
        (lambda: scalars(ints=numpy.array([0.5])), "ints is ndarray float64 [1], expected a list of ints"),
        (lambda: scalars(ints=[0.5]), "ints is list [0.5], expected a list of ints"),
        (lambda: scalars(floats=["a"]), "floats is list ['a'], expected a list of floats"),
        (lambda: scalars(oi="a"), "oi is str 'a', expected an int or None"),
        (lambda: scalars(of="a"), "of is str 'a', expected a float or None"),
        (lambda: scalars(ob="a"), "ob is str 'a', expected a bool or None"),
        (lambda: arguments.every_scalar(F(1), 1, 1.0, True, "", [], [], 1, 1.0, True, "label"), "takes at most 10"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentTypeError) as raised:
        call()
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "taken",
    [
        {"i": numpy.int32(2)},
        {"i": torch.tensor(2)},
        {"f": 2},
        {"f": numpy.float32(2)},
        {"b": 1},
        {"b": numpy.bool_(True)},
        {"ints": numpy.array([1, 2])},
        {"oi": None},
        {"floats": range(2)},
    ],
    ids=str,
)
def test_what_stands_for_a_scalar_is_not_blamed_for_another_mistake(taken: dict[str, Any]) -> None:
    assert isinstance(scalars(**taken), torch.Tensor)
    with pytest.raises(ShapeError, match="x has 2 dimensions, expected 1"):
        scalars(x=F(2, 2), **taken)


def test_an_error_of_the_arguments_is_one_exception_without_inner_frames() -> None:
    arguments.shift(F(2, 3))
    for call, most in ((arguments.shift, 3), (functools.partial(arguments.shift, bias=None), 3)):
        with pytest.raises(ArgumentTypeError) as raised:
            call("abc")
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__
        assert len(raised.traceback) <= most


def scalars(**changed: Any) -> Any:
    values = {"x": F(1), "i": 1, "f": 1.0, "b": True, "s": "", "ints": [1], "floats": [1.0]}
    return arguments.every_scalar(**{**values, **changed})


def test_a_refused_call_leaves_the_operator_usable() -> None:
    with pytest.raises(ShapeError):
        arguments.shift(F(2))
    assert arguments.shift(F(2, 3)).shape == (2, 3)


def test_a_typed_exception_is_also_what_pytorch_raises_for_the_same_mistake() -> None:
    with pytest.raises(ValueError, match="expected 2"):
        arguments.shift(F(2))
    with pytest.raises(TypeError, match="expected a tensor"):
        arguments.shift(3)
