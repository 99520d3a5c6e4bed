"""What autograd keeps for the backward is kept as a built-in operator keeps it: hooks, checkpoints, versions, freeing."""

from __future__ import annotations

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator, needs_bridge, weighted_sum
from torch import Tensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell, lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile


def gradients(total: Tensor, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, arguments, allow_unused=True, materialize_grads=True)


class Keeping:
    """Saved-tensor hooks that note what is packed and unpacked."""

    def __init__(self) -> None:
        self.packed: list[Tensor] = []
        self.unpacked = 0

    def pack(self, tensor: Tensor) -> Tensor:
        self.packed.append(tensor)
        return tensor.clone()

    def unpack(self, tensor: Tensor) -> Tensor:
        self.unpacked += 1
        return tensor


@each_case
def test_hooks_see_what_is_saved_and_give_it_back(case: Case):
    arguments = case.make()
    expected = gradients(case.expected_total(*arguments), arguments)
    keeping = Keeping()
    with saved_tensors_hooks(keeping.pack, keeping.unpack):
        found = case.found(*arguments)
    torch.testing.assert_close(gradients(weighted_sum(found), arguments), expected)
    assert keeping.unpacked == len(keeping.packed)


# What the backward reads, and no more: the gradient of a sum needs nothing.
_SAVED = [
    pytest.param(add2, ((3, 4), (3, 4)), (), id="add2"),
    pytest.param(sigmoid, ((3, 4),), ((3, 4),), id="sigmoid"),
    pytest.param(lltm_gates, ((3, 12), (3, 4)), ((3, 12), (3, 4)), id="lltm_gates"),
    pytest.param(
        lltm_cell,
        ((3, 2), (3, 4), (3, 4), (12, 6), (12,)),
        ((3, 2), (3, 4), (3, 4), (12, 6), (12,), (3, 12), (3, 4)),
        id="lltm_cell",
    ),
]


@pytest.mark.parametrize(("operator", "shapes", "saved"), _SAVED)
def test_nothing_is_saved_that_the_backward_does_not_read(operator, shapes, saved):
    keeping = Keeping()
    with saved_tensors_hooks(keeping.pack, keeping.unpack):
        operator(*(torch.randn(shape, requires_grad=True) for shape in shapes))
    assert sorted(tuple(tensor.shape) for tensor in keeping.packed) == sorted(saved)


@each_operator
def test_nothing_is_saved_without_a_gradient_to_compute(case: Case):
    keeping = Keeping()
    with saved_tensors_hooks(keeping.pack, keeping.unpack):
        case.found(*case.make(requires_grad=False))
        with torch.no_grad():
            case.found(*case.make())
    assert keeping.packed == []


@each_operator
def test_saved_tensors_can_be_offloaded(case: Case):
    arguments = case.make()
    with save_on_cpu():
        total = case.total(*arguments)
    torch.testing.assert_close(gradients(total, arguments), gradients(case.expected_total(*arguments), arguments))


@each_operator
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_computes_again_and_gives_equal_gradients(case: Case, use_reentrant: bool):
    arguments = case.make()
    calls = []

    def block(*given: Tensor) -> Tensor:
        calls.append(None)
        return case.total(*given)

    total = checkpoint(block, *arguments, use_reentrant=use_reentrant)
    total.backward()
    # The gradient of a sum needs nothing, but sin is in the block too.
    assert len(calls) == 2
    expected = gradients(case.expected_total(*arguments), arguments)
    torch.testing.assert_close(tuple(argument.grad for argument in arguments), expected)


def test_checkpointed_steps_of_a_cell():
    cell = LLTMCell(2, 4, dtype=torch.float64)
    inputs = torch.randn(5, 3, 2, dtype=torch.float64)

    def run(is_checkpointed: bool) -> list[Tensor]:
        state = (torch.zeros(3, 4, dtype=torch.float64),) * 2
        for step in inputs:
            state = checkpoint(cell, step, state, use_reentrant=False) if is_checkpointed else cell(step, state)
        return list(torch.autograd.grad(state[0].sum(), list(cell.parameters())))

    assert all(torch.equal(a, b) for a, b in zip(run(True), run(False), strict=True))


@each_case
def test_a_second_backward_needs_retain_graph(case: Case):
    arguments = case.make()
    total = case.total(*arguments)
    first = torch.autograd.grad(total, arguments, retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(total, arguments, allow_unused=True)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        torch.autograd.grad(total, arguments, allow_unused=True)


@pytest.mark.parametrize("case", [pytest.param(sigmoid, id="sigmoid"), pytest.param(torch.sigmoid, id="torch.sigmoid")])
def test_a_node_whose_tensors_are_freed_says_so(case):
    x = torch.randn(3, requires_grad=True)
    y = case(x)
    y.backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward(torch.ones(3))


@needs_bridge
def test_where_nothing_is_saved_nothing_is_freed():
    # As for torch.add.
    for function in (add2, torch.add):
        x = torch.randn(3, requires_grad=True)
        y = function(x, x)
        y.backward(torch.ones(3))
        y.backward(torch.ones(3))
        assert x.grad.tolist() == [4, 4, 4]


@pytest.mark.parametrize("which", ["input", "output"])
def test_a_saved_tensor_that_was_changed_is_noticed(which: str):
    gates, cell = torch.randn(3, 12, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    pre_activations = gates * 1
    hidden, new_cell = lltm_gates(pre_activations, cell)
    with torch.no_grad():
        (pre_activations if which == "input" else new_cell).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        hidden.sum().backward()


def test_what_is_not_saved_may_be_changed():
    gates, cell = torch.randn(3, 12), torch.randn(3, 4, requires_grad=True)
    state = cell * 1
    hidden, new_cell = lltm_gates(gates, state)
    with torch.no_grad():
        state.zero_()
        hidden.zero_()
    new_cell.sum().backward()
    torch.testing.assert_close(cell.grad, torch.ones(3, 4))


@each_case
def test_outputs_may_be_written_to_in_place(case: Case):
    """The graph continues through an in-place operation on an output, as on a built-in operator's."""
    arguments = case.make()

    def scaled(function) -> tuple[Tensor, ...]:
        outputs = [output.clone() if is_saved else output for output, is_saved in function(*arguments)]
        return gradients(sum(output.mul_(k).sum() for k, output in enumerate(outputs, 2)), arguments)

    # What a backward reads must not be written to; which outputs it reads, the definition says.
    wiring = case.operator.definition.wiring
    read = {argument.index for argument in wiring.arguments if argument.source == "output"} if wiring else set()
    torch.testing.assert_close(
        scaled(lambda *given: [(output, index in read) for index, output in enumerate(case.found(*given))]),
        scaled(lambda *given: [(output, True) for output in case.expected(*given)]),
    )


def test_hooks_on_tensors_and_nodes_run():
    x = torch.randn(3, requires_grad=True)
    seen = []
    y = sigmoid(x)
    y.register_hook(lambda gradient: seen.append("tensor"))
    y.grad_fn.register_prehook(lambda gradients: seen.append("before"))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
    y.retain_grad()
    y.sum().backward()
    assert sorted(seen) == ["after", "before", "tensor"]
    assert y.grad.tolist() == [1, 1, 1]
    assert [node is not None for node, _ in y.grad_fn.next_functions] == [True]


@pytest.mark.parametrize(("operator", "arity", "name"), [(sigmoid, 1, "sigmoid"), (add2, 2, "add2")])
def test_the_node_has_the_operators_name(operator, arity: int, name: str):
    node = operator(*(torch.randn(3, requires_grad=True) for _ in range(arity))).grad_fn
    assert name in node.name().lower()
