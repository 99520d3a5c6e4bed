"""torch.func's transforms give what they give for the body, alone and one inside the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator, each_traced
from torch import Tensor, func

from opsmith.ops.lltm import LLTMCell

pytestmark = pytest.mark.compile

Total = Callable[..., Tensor]


def both(case: Case, transform: Callable[[Total], Callable[..., object]], *arguments: Tensor) -> None:
    """Hold a transform of the operator to the same transform of its body."""
    torch.testing.assert_close(transform(case.total)(*arguments), transform(case.expected_total)(*arguments))


def every(case: Case) -> tuple[int, ...]:
    return tuple(range(len(case.shapes)))


@each_case
def test_grad(case: Case):
    both(case, lambda f: func.grad(f, every(case)), *case.make(requires_grad=False))


@each_case
def test_grad_and_value_of_one_argument(case: Case):
    arguments = case.make(requires_grad=False)
    both(case, lambda f: func.grad_and_value(f, len(arguments) - 1), *arguments)


@each_case
def test_vjp(case: Case):
    arguments = case.make(requires_grad=False)
    values, pullback = func.vjp(case.found, *arguments)
    expected, expected_pullback = func.vjp(case.expected, *arguments)
    torch.testing.assert_close(values, expected)
    seeds = tuple(torch.randn_like(value) for value in values)
    torch.testing.assert_close(pullback(seeds), expected_pullback(seeds))


@each_case
def test_jvp(case: Case):
    arguments = case.make(requires_grad=False)
    tangents = case.make(seed=1, requires_grad=False)
    found, expected = (func.jvp(f, arguments, tangents) for f in (case.found, case.expected))
    torch.testing.assert_close(found, expected)
    assert found[1][0].abs().max() > 0


@each_case
@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd], ids=["jacrev", "jacfwd"])
def test_jacobians(case: Case, transform: Callable[..., Callable[..., object]]):
    arguments = case.make(2, requires_grad=False)
    found, expected = (transform(f, every(case))(*arguments) for f in (case.found, case.expected))
    torch.testing.assert_close(found, expected)


@each_case
def test_hessian(case: Case):
    # jacfwd of jacrev: a forward-mode derivative of the backward operator.
    both(case, lambda f: func.hessian(f, 0), *case.make(2, requires_grad=False))


@each_case
def test_hessian_by_reverse_mode_alone(case: Case):
    both(case, lambda f: func.jacrev(func.jacrev(f, 0), 0), *case.make(2, requires_grad=False))


@each_operator
def test_a_gradient_of_a_gradient(case: Case):
    def twice(f: Total) -> Callable[..., object]:
        return func.grad(lambda *arguments: sum(g.square().sum() for g in func.grad(f, every(case))(*arguments)))

    both(case, twice, *case.make(requires_grad=False))


@each_operator
def test_tangent_of_a_gradient_and_gradient_of_a_tangent(case: Case):
    arguments = case.make(requires_grad=False)
    tangents = case.make(seed=1, requires_grad=False)

    def forward_over_reverse(f: Total) -> Callable[..., object]:
        return lambda *given: func.jvp(func.grad(f, every(case)), given, tangents)

    def reverse_over_forward(f: Total) -> Callable[..., object]:
        return func.grad(lambda *given: func.jvp(f, given, tangents)[1], every(case))

    both(case, forward_over_reverse, *arguments)
    both(case, reverse_over_forward, *arguments)


@each_traced
def test_linearize(case: Case):
    arguments = case.make(requires_grad=False)
    tangents = case.make(seed=1, requires_grad=False)
    # It folds constants of a graph, which PyTorch itself warns about.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (value, push), (expected, expected_push) = (func.linearize(f, *arguments) for f in (case.found, case.expected))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(push(*tangents), expected_push(*tangents))


def stacked(case: Case, dims: tuple[int | None, ...]) -> list[Tensor]:
    """Return arguments with one more dimension of size 5 where `dims` says so."""
    samples = [case.make(seed=seed, requires_grad=False) for seed in range(5)]
    tensors = []
    for index, dim in enumerate(dims):
        column = [sample[index] for sample in samples]
        tensors.append(column[0] if dim is None else torch.stack(column, dim))
    return tensors


def placements(case: Case) -> list[tuple[int | None, ...]]:
    """Return what vmap may be told: all in front, all behind, the middle, and each argument alone."""
    count = len(case.shapes)
    alone = [tuple(0 if index == one else None for index in range(count)) for one in range(count)]
    mixed = tuple(-1 if index % 2 else 0 for index in range(count))
    return [(0,) * count, (-1,) * count, mixed, *(alone if count > 1 else [])]


@each_case
def test_vmap(case: Case):
    # Warnings are errors here, so a slow fallback would fail.
    for dims in placements(case):
        arguments = stacked(case, dims)
        found, expected = (func.vmap(f, in_dims=dims)(*arguments) for f in (case.found, case.expected))
        torch.testing.assert_close(found, expected)


@each_case
def test_vmap_inside_vmap_and_out_dims(case: Case):
    dims = (0,) * len(case.shapes)
    arguments = [torch.stack([tensor, 2 * tensor]) for tensor in stacked(case, dims)]

    def nested(f: Callable[..., tuple[Tensor, ...]]) -> object:
        return func.vmap(func.vmap(f, in_dims=dims, out_dims=1), in_dims=dims)(*arguments)

    torch.testing.assert_close(nested(case.found), nested(case.expected))


@each_case
def test_vmap_in_chunks_and_over_nothing_but_one(case: Case):
    dims = (0,) * len(case.shapes)
    arguments = stacked(case, dims)
    expected = func.vmap(case.expected, in_dims=dims)(*arguments)
    torch.testing.assert_close(func.vmap(case.found, in_dims=dims, chunk_size=2)(*arguments), expected)
    single = [tensor[:1] for tensor in arguments]
    torch.testing.assert_close(func.vmap(case.found)(*single), tuple(result[:1] for result in expected))


@each_operator
def test_gradients_of_each_sample(case: Case):
    dims = (0,) * len(case.shapes)
    arguments = stacked(case, dims)

    def per_sample(f: Total) -> object:
        return func.vmap(func.grad(f, every(case)), in_dims=dims)(*arguments)

    torch.testing.assert_close(per_sample(case.total), per_sample(case.expected_total))


def test_functional_call_with_gradients_of_each_sample():
    cell = LLTMCell(2, 4, dtype=torch.float64)
    parameters = {name: parameter.detach() for name, parameter in cell.named_parameters()}
    inputs = torch.randn(5, 2, dtype=torch.float64)

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        hidden, new_cell = func.functional_call(cell, parameters, (sample.unsqueeze(0),))
        return (hidden * new_cell).sum()

    found = func.vmap(func.grad(loss), in_dims=(None, 0))(parameters, inputs)
    for index, sample in enumerate(inputs):
        hidden, new_cell = cell(sample.unsqueeze(0))
        expected = torch.autograd.grad((hidden * new_cell).sum(), list(cell.parameters()))
        for (_, gradients), exact in zip(sorted(found.items(), reverse=True), expected, strict=True):
            torch.testing.assert_close(gradients[index], exact)


def test_an_ensemble_of_modules():
    cells = [LLTMCell(2, 4, dtype=torch.float64) for _ in range(3)]
    parameters, buffers = func.stack_module_state(cells)
    inputs = torch.randn(5, 2, dtype=torch.float64)
    found = func.vmap(lambda p, b: func.functional_call(cells[0], (p, b), (inputs,)))(parameters, buffers)
    for index, cell in enumerate(cells):
        torch.testing.assert_close(tuple(result[index] for result in found), cell(inputs))
