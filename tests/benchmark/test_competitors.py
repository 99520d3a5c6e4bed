"""Who is timed, and how each of them is called at each phase."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.benchmark.calls import gradients, has_gradient, prepare
from opsmith.benchmark.competitors import Competitor, competitors, differentiable, visible_outputs
from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject, subject_of


def product(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * y


@opsmith.op(outputs=("y", "root"), saved="root")
def with_saved(x: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Return 2 * sqrt(x), and sqrt(x) for the backward."""
    root = x.abs().sqrt()
    return 2 * root, root


@with_saved.versus("plain")
def plain(x: Tensor) -> Tensor:
    return 2 * x.abs().sqrt()


def subject(function: Any = product, **said: Any) -> Subject:
    return subject_of(function, reference=function, devices=("cpu",), **said)


def names(device: str, chosen: tuple[str, ...] = (), extra: tuple[Competitor, ...] = ()) -> list[str]:
    found = competitors(subject_of(with_saved, devices=("cpu",)), device, chosen, extra)
    return [one.name for one in found]


def test_who_is_timed_by_default():
    assert names("cpu") == ["opsmith", "eager", "compiled", "plain"]
    assert names("cuda") == [
        "opsmith",
        "eager",
        "compiled",
        "reduce-overhead",
        "max-autotune",
        "graph",
        "eager graph",
        "plain",
    ]
    assert [one.name for one in competitors(subject(), "cpu")] == ["operator", "eager", "compiled"]


def test_who_is_timed_by_name():
    assert names("cpu", ("eager",)) == ["opsmith", "eager"]
    assert names("cpu", ("plain", "max-autotune")) == ["opsmith", "eager", "max-autotune", "plain"]
    assert names("cuda", ("graph",), (Competitor("mine", product),)) == ["opsmith", "eager", "graph", "mine"]
    with pytest.raises(ArgumentError, match=r"no competitor 'graph' on cpu; there are eager, compiled, .*@op\.versus"):
        names("cpu", ("graph",))


def test_graphs_have_no_backward_that_can_be_repeated():
    found = {one.name: one.phases for one in competitors(subject(), "cuda")}
    assert found["compiled"] == ("forward", "backward", "both")
    assert found["reduce-overhead"] == ("forward", "both")
    assert found["graph"] == ("forward", "both")


def test_the_reference_gives_what_a_caller_gets():
    one = subject_of(with_saved, devices=("cpu",))
    x = torch.rand(5)
    assert torch.equal(visible_outputs(one)(x), 2 * x.sqrt())
    assert visible_outputs(subject()) is product


def values(count: int = 3) -> list[dict[str, Any]]:
    random = torch.Generator().manual_seed(0)
    return [{name: torch.randn(4, generator=random) for name in "xy"} for _ in range(count)]


def test_a_forward_is_called_with_each_set_in_turn():
    seen = []

    def noted(x: Tensor, y: Tensor) -> Tensor:
        seen.append(float(x[0]))
        return x * y

    inputs = values()
    contender = prepare(subject(), Competitor("it", noted), noted, "forward", inputs)
    assert not seen
    for call in contender.turns.take(4):
        call()
    first = [float(one["x"][0]) for one in inputs]
    assert seen == [*first, first[0]]
    assert torch.equal(contender.results()[0], inputs[0]["x"] * inputs[0]["y"])


@pytest.mark.parametrize("phase", ["backward", "both"])
def test_gradients_of_all_inputs(phase: Any):
    inputs = values()
    contender = prepare(subject(), Competitor("it", product), product, phase, inputs)
    grad_x, grad_y = contender.results()
    assert torch.equal(grad_x / inputs[0]["y"], grad_y / inputs[0]["x"])
    assert grad_x.unique().numel() > 1  # the gradient of the output is not the same everywhere
    for _ in range(2):
        contender.turns.calls[1]()  # the graph of a backward is there again for the next call
    assert not any(one["x"].requires_grad for one in inputs)


def test_only_a_backward_without_its_forward_leaves_that_out():
    calls = []

    def counted(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return x * y

    backward = prepare(subject(), Competitor("it", counted), counted, "backward", values())
    both = prepare(subject(), Competitor("it", counted), counted, "both", values())
    before = len(calls)
    backward.turns.calls[0]()
    assert len(calls) == before
    both.turns.calls[0]()
    assert len(calls) == before + 1


def test_a_gradient_that_autograd_knows_to_be_zero_is_zeros():
    def first_alone(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x * 2

    grad_x, grad_y = gradients(subject(first_alone), first_alone, values(1)[0])
    assert grad_x.abs().sum() > 0
    assert torch.equal(grad_y, torch.zeros(4))


def test_gradients_do_not_depend_on_the_element_type():
    wide = {name: value.double() for name, value in values(1)[0].items()}
    narrow = gradients(subject(), product, values(1)[0])
    for one, other in zip(gradients(subject(), product, wide), narrow, strict=True):
        assert torch.equal(one.float(), other)


def test_who_has_a_gradient():
    given = values(1)[0]
    assert has_gradient(subject(), given)
    integers = {name: torch.ones(4, dtype=torch.int64) for name in "xy"}
    assert not has_gradient(subject(), integers)
    detached = subject_of(lambda x: x.detach(), reference=lambda x: x.detach(), examples=[(torch.ones(2),)])
    assert not has_gradient(detached, {"x": torch.ones(2)})


def test_what_writes_to_its_arguments_has_none():
    stub = SimpleNamespace(mutated=("x",), differentiable=("x",))
    assert differentiable(stub, {"x": torch.ones(2)}) == []


def test_what_is_written_to_is_a_copy_and_is_put_back():
    def grow(x: Tensor) -> None:
        x.mul_(2)

    with torch.library._scoped_library("opsmith_bench_calls", "DEF") as library:
        library.define("grow(Tensor(a!) x) -> ()")
        library.impl("grow", grow, "CompositeExplicitAutograd")
        op = torch.ops.opsmith_bench_calls.grow
        x = torch.ones(3)
        one = subject_of(op, reference=grow, examples=[(x,)], devices=("cpu",))
        contender = prepare(one, Competitor("it", op), op, "forward", [{"x": x}])
        for _ in range(3):
            contender.turns.calls[0]()
        assert torch.equal(contender.results()[0], torch.full((3,), 2.0))
        assert torch.equal(x, torch.ones(3))


@pytest.mark.gpu
def test_a_graph_is_replayed():
    x = torch.randn(1000, device="cuda")
    one = subject(lambda x: x * 2, examples=[(x,)])
    for function in (one.call, visible_outputs(one)):
        competitor = Competitor("graph", function, "graph", ("forward",))
        contender = prepare(one, competitor, function, "forward", [{"x": x}])
        contender.turns.calls[0]()
        assert torch.equal(contender.results()[0], x * 2)


@pytest.mark.gpu
def test_a_graph_of_the_whole_step_is_replayed():
    x, y = torch.randn(2, 1000, device="cuda")
    one = subject(lambda x, y: x * x + y.detach(), examples=[(x, y)])
    for function in (one.call, visible_outputs(one)):
        competitor = Competitor("graph", function, "graph", ("forward", "both"))
        plain = prepare(one, Competitor("plain", function), function, "both", [{"x": x, "y": y}]).results()
        contender = prepare(one, competitor, function, "both", [{"x": x, "y": y}])
        strays = []  # in what memory is free, that of the capture's stream too: the graph may use none of it
        for _ in range(32):
            with torch.cuda.stream(torch.cuda.Stream()):
                strays += [torch.full_like(x, torch.nan) for _ in range(8)]
        torch.cuda.synchronize()
        contender.turns.calls[0]()
        for found, expected in zip(contender.results(), plain, strict=True):
            assert torch.equal(found, expected)
