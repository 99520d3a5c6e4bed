"""torch.vmap of every kind of operator gives what a loop over the samples gives, by as few calls as there can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from kit import arguments, elementwise, gradients, natives, shapes
from rules_kit import operators
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import opsmith
from opsmith.errors import ArgumentError, DefinitionError, ShapeError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_cell_backward, lltm_gates, lltm_gates_backward
from opsmith.ops.sigmoid import sigmoid, sigmoid_backward

pytestmark = pytest.mark.compile

SAMPLES = 5
# How often an operator is called for all samples: once by a rule of its own, never where its body is mapped.
ONCE, BODY, EACH = 1, 0, SAMPLES


def t(*sizes: int) -> Tensor:
    return torch.randn(sizes, dtype=torch.float64)


class Calls(TorchDispatchMode):
    """Counts what reaches an operator's kernels."""

    def __init__(self, operator: opsmith.Operator) -> None:
        super().__init__()
        self.target, self.count = operator.torch_op, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is self.target
        return func(*args, **(kwargs or {}))


def one_by_one(function: Callable[..., Any], in_dims: Sequence[Any], *args: Any) -> Any:
    """Return what torch.vmap should, from a call for each sample."""
    size = next(v.shape[d] for v, d in zip(*flat(args, in_dims), strict=True) if d is not None)
    results = []
    for number in range(size):
        values, dims = flat(args, in_dims)
        chosen = [v if d is None else v.select(d, number).clone() for v, d in zip(values, dims, strict=True)]
        results.append(function(*pytree.tree_unflatten(chosen, pytree.tree_structure(args))))
    return pytree.tree_map(lambda *each: torch.stack(each), *results)


def flat(args: Sequence[Any], in_dims: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
    dims = [
        d for d, arg in zip(in_dims, args, strict=True) for d in (d if isinstance(d, list) else [d] * len(leaves(arg)))
    ]
    return leaves(args), dims


def leaves(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)


n = SAMPLES
CASES: dict[str, tuple[opsmith.Operator, tuple[Any, ...], tuple[Any, ...], int]] = {
    # Elementwise: the samples are one more dimension.
    "elementwise": (add2, (t(n, 3, 4), t(n, 3, 4)), (0, 0), ONCE),
    "elementwise, in other places": (add2, (t(3, n, 4), t(3, 4, n)), (1, -1), ONCE),
    "elementwise, one for all samples": (add2, (t(3, 4), t(3, n, 4)), (None, 1), ONCE),
    "elementwise, of numbers": (sigmoid, (t(n),), (0,), ONCE),
    "elementwise, without elements": (add2, (t(n, 0), t(0)), (0, None), ONCE),
    "elementwise, optional given": (elementwise.axpy, (t(3), t(n, 3), t(3)), (None, 0, None), ONCE),
    "elementwise, optional absent": (elementwise.axpy, (None, t(n, 3), t(3)), (None, 0, None), ONCE),
    "elementwise, a backward": (sigmoid_backward, (t(3, n), t(3, n)), (1, 1), ONCE),
    "elementwise, other types": (elementwise.select, (t(n, 3) > 0, t(3), t(3, n)), (0, None, 1), ONCE),
    # A group among other dimensions.
    "group in front": (shapes.row_sums, (t(2, 3, n),), (2,), ONCE),
    "group in front, empty": (shapes.row_sums, (t(n, 3),), (0,), ONCE),
    "group in front, two inputs": (shapes.outer, (t(2, 3), t(n, 2, 4)), (None, 0), ONCE),
    "group in the middle": (shapes.middle, (t(2, 3, n, 4),), (2,), ONCE),
    "group, weight for all samples": (operators.rms, (t(2, n, 3), t(3)), (1, None), ONCE),
    "group, weight for each sample": (operators.rms, (t(2, 3), t(3, n)), (None, 1), BODY),
    "group, native kernel with sizes of its own": (natives.halves, (t(n, 2, 6), False), (0, None), ONCE),
    # A batch.
    "batch": (lltm_gates, (t(n, 3, 12), t(n, 3, 4)), (0, 0), ONCE),
    "batch, one for all samples": (lltm_gates, (t(3, n, 12), t(3, 4)), (1, None), ONCE),
    "batch of none": (lltm_gates, (t(n, 0, 12), t(n, 0, 4)), (0, 0), ONCE),
    "batch, backward": (lltm_gates_backward, (t(n, 3, 4), t(3, 4), t(3, 12, n), t(3, 4)), (0, None, 2, None), ONCE),
    "batch in the last dimension": (operators.scaled_columns, (t(n, 2, 3), t(3), t(4, 2)), (0, None, None), ONCE),
    "batch, optional": (operators.scaled_columns, (t(2, 3), t(n, 3), t(4, 2), t(3, n)), (None, 0, None, 1), ONCE),
    "batch, what all samples share differs": (
        operators.scaled_columns,
        (t(2, 3), t(3), t(n, 4, 2)),
        (None, None, 0),
        BODY,
    ),
    "batch, list": (operators.pooled, ([t(n, 2, 3, 4), t(2, 3, 5, n)], t(3), 2), ([0, 3], None, None), ONCE),
    "batch, one of a list": (operators.pooled, ([t(n, 2, 3, 4), t(2, 3, 5)], t(3)), ([0, None], None), ONCE),
    "cell": (lltm_cell, (t(n, 3, 2), t(3, 4), t(3, 4), t(12, 6), t(12)), (0, None, None, None, None), ONCE),
    "cell, weights for each sample": (
        lltm_cell,
        (t(3, 2), t(3, 4), t(3, 4), t(12, n, 6), t(12)),
        (None, None, None, 1, None),
        BODY,
    ),
    "cell's backward": (
        lltm_cell_backward,
        (t(n, 3, 4), t(3, 4), t(3, 2), t(3, 4), t(3, 4), t(12, 6), t(12), t(3, 12), t(3, 4)),
        (0, *[None] * 8),
        BODY,
    ),
    # Everything else.
    "body": (gradients.mix, (t(n, 2, 3), t(2, 3)), (0, None), BODY),
    "body, list": (gradients.levels_sum, (t(3), [t(n, 2, 3), t(4, 3)], t(3)), (None, [0, None], None), BODY),
    "body, other types": (shapes.row_max, (t(2, n, 3),), (1,), BODY),
    "body, channels last": (shapes.halve, (t(n, 2, 4, 6, 6), 2), (0, None), BODY),
    "body, gradient of a body": (
        natives.linear_backward,
        (t(n, 2, 4), t(2, 3), t(4, 3), t(4)),
        (0, None, None, None),
        BODY,
    ),
    "body, gradient of a body, for all but one": (
        natives.linear_backward,
        (t(2, 4), t(2, 3), t(4, n, 3), t(4)),
        (None, None, 1, None),
        BODY,
    ),
    "not independent": (operators.centred, (t(n, 2, 3),), (0,), BODY),
    "not independent, backward": (operators.centred_backward, (t(2, 3, n),), (2,), BODY),
    "a dimension by its number": (operators.running_sum, (t(3, n, 4), 1), (1, None), BODY),
    "the backward of a mean": (operators.mean_square_backward, (t(), t(2, n, 3)), (None, 1), BODY),
    "the gradient of a group's weight": (operators.rms_backward, (t(n, 2, 3), t(2, 3), t(3)), (0, None, None), BODY),
    "a body that returns its input": (gradients.identity, (t(n, 3),), (0,), BODY),
    "a body that returns one tensor twice": (gradients.same_twice, (t(3, n),), (1,), BODY),
    "an output that is the same for all samples": (operators.constant, (t(3), t(n, 3)), (None, 0), BODY),
    "what PyTorch cannot batch: a number read": (operators.rows_until, (t(n, 4, 3), torch.arange(n)), (0, 0), EACH),
    "what PyTorch cannot batch: a write": (operators.stuffed, (t(3, n),), (1,), EACH),
    "what PyTorch cannot batch, kernel": (
        shapes.upfir,
        (t(n, 2, 5), torch.rand(3), 2, 1, 1, 1),
        (0, *[None] * 5),
        EACH,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_how_they_are_found(case: str):
    operator, args, in_dims, calls = CASES[case]
    expected = one_by_one(operator, in_dims, *args)
    with Calls(operator) as counter:
        found = torch.vmap(operator, in_dims)(*args)
    torch.testing.assert_close(found, expected)
    assert counter.count == calls


@pytest.mark.parametrize("case", CASES)
def test_results_are_tensors_of_their_own(case: str):
    operator, args, in_dims, _ = CASES[case]

    def overwritten(*values: Any) -> tuple[Tensor, ...]:
        results = leaves(operator(*values))
        for result in results:
            result.zero_()
        return tuple(results)

    before = [value.clone() for value in leaves(args) if isinstance(value, Tensor)]
    for result in torch.vmap(overwritten, in_dims)(*args):
        assert not result.any()
    torch.testing.assert_close([value for value in leaves(args) if isinstance(value, Tensor)], before)


@pytest.mark.parametrize("case", CASES)
def test_one_inside_the_other(case: str):
    operator, args, in_dims, _ = CASES[case]
    values, dims = flat(args, in_dims)
    pairs = [v if d is None else torch.stack([v, v.flip(d)]) for v, d in zip(values, dims, strict=True)]
    structure = pytree.tree_structure(args)
    outer = pytree.tree_unflatten([None if d is None else 0 for d in dims], structure)
    inner = torch.vmap(operator, in_dims, out_dims=-1)
    arguments = pytree.tree_unflatten(pairs, structure)
    torch.testing.assert_close(torch.vmap(inner, outer)(*arguments), one_by_one(inner, outer, *arguments))


@pytest.mark.parametrize("case", ["elementwise", "group in front", "batch", "body", "body, list", "not independent"])
def test_in_chunks_out_dims_and_no_samples(case: str):
    operator, args, in_dims, _ = CASES[case]
    expected = torch.vmap(operator, in_dims)(*args)
    chunked = torch.vmap(operator, in_dims, chunk_size=2)(*args)
    torch.testing.assert_close(chunked, expected)
    elsewhere = torch.vmap(operator, in_dims, out_dims=1)(*args)
    torch.testing.assert_close(pytree.tree_map(lambda x: x.movedim(1, 0), elsewhere), expected)
    values, dims = flat(args, in_dims)
    none = [v if d is None else v.narrow(d, 0, 0) for v, d in zip(values, dims, strict=True)]
    none = pytree.tree_unflatten(none, pytree.tree_structure(args))
    empty = torch.vmap(operator, in_dims)(*none)
    assert [x.shape for x in leaves(empty)] == [(0, *x.shape[1:]) for x in leaves(expected)]
    assert [x.dtype for x in leaves(empty)] == [x.dtype for x in leaves(expected)]


def test_no_samples_for_a_body_that_cannot_be_batched():
    assert torch.vmap(operators.rows_until)(t(0, 4, 3), torch.arange(0)).shape == (0, 3)


def test_keyword_arguments():
    x = t(n, 3)
    found = torch.vmap(lambda x: gradients.cubic(x, scale=3.0))(x)
    torch.testing.assert_close(found, gradients.cubic(x, scale=3.0))
    found = torch.vmap(lambda x: arguments.every_scalar(x, 1, 0.5, True, "s", [1], [], double=2.0))(x)
    expected = torch.stack([arguments.every_scalar(row, 1, 0.5, True, "s", [1], [], double=2.0) for row in x])
    torch.testing.assert_close(found, expected)


def test_a_gradient_that_is_not_needed():
    for operator, rank in ((operators.times_backward, 2), (operators.product_backward, 1)):
        x, y, grad = (t(n, *[3] * rank) for _ in range(3))
        grad_x, grad_y = torch.vmap(operator, (0, 0, 0, None))(grad, x, y, False)
        torch.testing.assert_close(grad_y, grad * x)
        assert grad_x.shape == (n, *[0] * rank)
        torch.testing.assert_close(torch.vmap(operator, (0, 0, 0, None))(grad, x, y, True), (grad * y, grad * x))


def test_a_rule_by_hand_is_taken():
    x = t(n, 3)
    expected = torch.stack([operators.declared(row, 3.0, shift=1.0) for row in x]) + 1000
    torch.testing.assert_close(torch.vmap(lambda row: operators.declared(row, 3.0, shift=1.0))(x), expected)
    torch.testing.assert_close(torch.vmap(operators.declared, 1)(x.t()), operators.declared.reference(x.t()).t() + 1000)


def test_no_rule_where_nothing_differs_from_sample_to_sample():
    x = t(3)
    found = torch.vmap(lambda y: operators.declared(x) + y)(t(n, 3) * 0)
    torch.testing.assert_close(found, operators.declared(x).expand(n, 3))


def test_arguments_that_are_written_to():
    x = t(3, n)
    expected = x * 3
    torch.vmap(lambda row: elementwise.scale_(row, 3.0), 1, out_dims=None)(x)
    torch.testing.assert_close(x, expected)
    total, rows = t(n, 4), t(3, 4)
    expected = total + rows.sum(0)
    first = torch.vmap(elementwise.accumulate, (0, None))(total, rows)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(first, rows[0].expand(n, 4))
    squares = t(2, 2, n)
    torch.vmap(elementwise.zero_diagonal, 2, out_dims=None)(squares)
    assert not squares.diagonal().any()
    assert squares.count_nonzero() == 2 * n


def test_a_write_to_what_all_samples_share_is_refused():
    total = t(3)
    before = total.clone()
    with pytest.raises(ArgumentError, match=r"add_to\(\) writes to total, which is the same tensor for every sample"):
        torch.vmap(operators.add_to, (None, 0))(total, t(n, 3))
    assert torch.equal(total, before)


def test_errors_speak_of_one_sample():
    with pytest.raises(ShapeError, match=r"lltm_gates\(\): gates has size 13 in dimension 1, expected 3\*S = 12 with"):
        torch.vmap(lltm_gates)(t(n, 3, 13), t(n, 3, 4))
    with pytest.raises(ShapeError, match=r"lltm_gates\(\): cell has size 2 in dimension 0, expected B = 3"):
        torch.vmap(lltm_gates, (0, None))(t(n, 3, 12), t(2, 4))
    with pytest.raises(ShapeError, match=r"lltm_gates\(\): gates has 1 dimension, expected 2"):
        torch.vmap(lltm_gates)(t(n, 12), t(n, 4))
    with pytest.raises(ShapeError, match=r"mix\(\): y has size 4 in dimension 1, expected N = 3"):
        torch.vmap(gradients.mix)(t(n, 2, 3), t(n, 2, 4))


def test_sizes_that_only_the_kernel_knows():
    x = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    torch.testing.assert_close(torch.vmap(natives.positives)(x), (torch.ones(2, 1), torch.tensor([[0], [1]])))
    with pytest.raises(
        ShapeError, match=r"samples of torch.vmap give outputs values of different sizes \(\(1,\), \(2,\)"
    ):
        torch.vmap(natives.positives)(torch.tensor([[1.0, -1.0], [1.0, 1.0]]))


def test_errors_of_a_body_that_is_wrong():
    for how, words in {
        "count": "the body returned Tensor, Tensor, the definition says 1 tensor",
        "dtype": "the body's output out is torch.float32, the definition says torch.float64",
        "size": r"the body's output out has the sizes \(2,\), the definition says",
        "type": "the body returned int, the definition says 1 tensor",
    }.items():
        with pytest.raises(DefinitionError, match=words):
            torch.vmap(operators.wrong, (0, None))(t(n, 3), how)


@pytest.mark.parametrize("case", ["elementwise", "batch", "body, other types", "group, weight for each sample"])
def test_compiled(case: str):
    operator, args, in_dims, _ = CASES[case]
    torch._dynamo.reset()
    mapped = torch.vmap(operator, in_dims)
    compiled = torch.compile(mapped, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*args), mapped(*args))
