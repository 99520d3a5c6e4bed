"""Under autocast an operator takes arguments of one type as a built-in operator would have them."""

from __future__ import annotations

import pytest
import torch
from compose_kit.table import Case, each_operator, needs_bridge

from opsmith.ops.lltm import LLTM, LLTMCell

pytestmark = pytest.mark.compile


def autocast() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


@each_operator
def test_arguments_of_different_types_meet(case: Case):
    """A cell's state may be float32 and its input bfloat16, from a layer before it: that must not be an error."""
    if len(case.shapes) == 1:
        pytest.skip("one argument cannot differ from itself")
    arguments = case.make(dtype=torch.float32)
    with autocast():
        mixed = (arguments[0].bfloat16(), *arguments[1:])
        found = case.found(*mixed)
    assert len({output.dtype for output in found}) == 1
    expected = case.expected(*(argument.detach() for argument in arguments))
    torch.testing.assert_close([output.float() for output in found], list(expected), rtol=0.05, atol=0.05)
    sum(output.float().sum() for output in found).backward()
    assert all(argument.grad.dtype == torch.float32 for argument in arguments)


@each_operator
def test_gradients_come_back_in_the_types_of_the_arguments(case: Case):
    arguments = case.make(dtype=torch.float32)
    with autocast():
        found = case.found(*arguments)
    gradients = torch.autograd.grad(sum(output.float().sum() for output in found), arguments)
    assert [gradient.dtype for gradient in gradients] == [torch.float32] * len(arguments)
    exact = case.make()
    expected = torch.autograd.grad(sum(output.sum() for output in case.expected(*exact)), exact)
    torch.testing.assert_close([g.double() for g in gradients], list(expected), rtol=0.1, atol=0.1)


@each_operator
def test_autocast_that_is_off_changes_nothing(case: Case):
    arguments = case.make(dtype=torch.float32)
    with autocast(), torch.autocast("cpu", enabled=False):
        found = case.found(*arguments)
    assert [output.dtype for output in found] == [torch.float32] * len(found)
    torch.testing.assert_close(found, case.expected(*arguments))


def test_float64_is_left_alone():
    cell = LLTMCell(2, 4, dtype=torch.float64)
    with autocast():
        hidden, new_cell = cell(torch.randn(3, 2, dtype=torch.float64))
    assert hidden.dtype == new_cell.dtype == torch.float64


def test_a_linear_layer_feeds_a_cell():
    first, cell = torch.nn.Linear(3, 2), LLTMCell(2, 4)
    x = torch.randn(5, 3)
    with autocast():
        between = first(x)
        hidden, new_cell = cell(between)
    assert between.dtype == torch.bfloat16
    (hidden.float().sum() + new_cell.float().sum()).backward()
    for parameter in (*first.parameters(), *cell.parameters()):
        assert parameter.grad.dtype == torch.float32
        assert torch.isfinite(parameter.grad).all()


def test_training_under_autocast_learns():
    model, head = LLTM(2, 16), torch.nn.Linear(16, 1)
    x, target = torch.randn(6, 32, 2), torch.randn(32, 1).tanh()
    parameters = [*model.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        with autocast():
            loss = (head(model(x)[0][-1]).float() - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_autocast_inside_a_compiled_graph():
    first, cell = torch.nn.Linear(3, 2), LLTMCell(2, 4)
    x = torch.randn(5, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        with autocast():
            return cell(first(x))[0].float().sum()

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), step(x))


@needs_bridge
@pytest.mark.filterwarnings("ignore:.*Profiler clears events.*:UserWarning")  # torch 2.11's own
def test_the_cast_of_a_weight_is_cached_as_for_built_in_operators():
    """A weight that several steps use is cast once within one autocast region."""
    cell = LLTMCell(2, 4)

    def count(steps: int) -> int:
        with autocast(), torch.profiler.profile() as profiled:
            state = None
            for step in torch.randn(steps, 3, 2):
                state = cell(step, state)
        return sum(event.name == "aten::_to_copy" for event in profiled.events())

    # The inputs are cast in every step, weight and bias once. The first state is zeros of the module's own type; all
    # later ones come out of the cell in the low type.
    assert count(20) - count(6) == 14
