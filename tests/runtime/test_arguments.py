"""Every kind of argument reaches the kernel as it reaches the body."""

from __future__ import annotations

import numpy
import pytest
import torch
from kit import arguments
from kit.agreement import agree

from opsmith.errors import ArgumentTypeError

pytestmark = pytest.mark.compile

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize(
    "optional",
    [{}, {"oi": 5}, {"of": None}, {"of": 2.5, "ob": True}, {"ob": False, "oi": -3}, {"label": "", "steps": []}],
)
def test_scalars_lists_and_defaults(optional: dict[str, object]) -> None:
    x = torch.randn(5, dtype=torch.float64)
    agree(arguments.every_scalar, x, 3, 0.25, True, "four", [1, -2], [0.5, 2], double=4, **optional)


def test_empty_lists_and_strings_and_ints_for_floats() -> None:
    x = torch.randn(5, dtype=torch.float64)
    agree(arguments.every_scalar, x, -(2**40), 1, False, "", [], [], of=3)


def test_arguments_by_name_in_any_order() -> None:
    x = torch.zeros(1, dtype=torch.float64)
    kwargs = {"floats": [1.0], "ints": [2], "s": "é", "b": False, "f": 0.5, "i": 1}
    # A C string counts bytes, and é has two of them.
    assert arguments.every_scalar(x=x, **kwargs) == arguments.every_scalar.reference(x, **kwargs) + 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_absent_tensor_is_a_null_view(dtype: torch.dtype) -> None:
    x, bias, rows = torch.randn(3, 4).to(dtype), torch.randn(4).to(dtype), torch.randn(3).to(dtype)
    agree(arguments.shift, x)
    agree(arguments.shift, x, bias)
    agree(arguments.shift, x, None, rows)
    agree(arguments.shift, x, rows=rows, bias=bias)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_feature_pyramid_is_a_list_of_views(dtype: torch.dtype) -> None:
    levels = [torch.randn(2, 3, size, size + 1).to(dtype) for size in (4, 2, 1, 0)]
    levels[1] = levels[1].to(memory_format=torch.channels_last)
    total = agree(arguments.pyramid, levels, torch.rand(3), tolerance=1e-2 if dtype.itemsize == 2 else 1e-5)
    assert total.dtype == dtype
    agree(arguments.pyramid, levels[:1], torch.rand(3), tolerance=1e-2 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_pinned_boxes_go_with_any_features_and_indices(dtype: torch.dtype, index: torch.dtype) -> None:
    features = torch.randn(2, 3, 6, 5).to(dtype)
    boxes = torch.tensor([[0.0, 1.0, 2.0, 2.0], [4.0, 5.0, 9.0, 9.0], [2.0, 0.0, 3.0, 3.0]])
    out = agree(arguments.crop, features, boxes, torch.tensor([1, 0, 1], dtype=index), 2, 3)
    assert out.shape == (3, 3, 2, 3)


def test_a_size_given_by_an_argument_may_be_zero() -> None:
    features, boxes, batch = torch.randn(1, 3, 6, 5), torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)
    assert agree(arguments.crop, features, boxes, batch, 0, 3).shape == (2, 3, 0, 3)
    assert agree(arguments.crop, features, boxes[:0], batch[:0], 2, 3).shape == (0, 3, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_operator_may_have_element_types_of_its_own(dtype: torch.dtype) -> None:
    x, index = torch.randn(5).to(dtype), torch.tensor([4, 0, 4], dtype=torch.int16)
    agree(arguments.pick, x, index, torch.randn(3).to(dtype))


@pytest.mark.parametrize("value", [numpy.float32(1.5), numpy.float64(2), torch.tensor(1.5), torch.tensor(2.0), 1.0])
def test_nothing_is_rounded_to_an_int(value: object) -> None:
    """PyTorch takes 1.5 for 1 where it comes from NumPy or in a tensor."""
    x = torch.zeros(1, dtype=torch.float64)
    for changed in ({"i": value}, {"ints": [1, value]}, {"oi": value}):
        kwargs = {"floats": [1.0], "ints": [2], "s": "", "b": False, "f": 0.5, "i": 1, **changed}
        with pytest.raises(ArgumentTypeError, match=r"expected an? (list of )?ints?"):
            arguments.every_scalar(x=x, **kwargs)


@pytest.mark.parametrize("value", [numpy.int64(3), torch.tensor(3), True])
def test_whole_numbers_of_other_types_are_ints(value: object) -> None:
    x = torch.zeros(1, dtype=torch.float64)
    for given in (value, int(value)):
        found = arguments.every_scalar(x, given, 0.5, False, "", [2], [1.0])
        assert found == arguments.every_scalar.reference(x, int(value), 0.5, False, "", [2], [1.0])
