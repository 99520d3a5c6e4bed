"""Tasks that cannot tell a kernel from a trick are refused, with the reason; others are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from opsmith.judging.candidate import Entry
from opsmith.judging.quality import quality_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.task import Task


def task_of(reference: Callable, *shapes: tuple[int, ...], zero: str = "", draw=torch.randn, lifted=()) -> Task:
    names = tuple("xyz"[: len(shapes)])

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        found = {name: draw(shape, generator=generator) for name, shape in zip(names, shapes, strict=True)}
        return {name: torch.zeros_like(one) if name == zero else one for name, one in found.items()}

    weights = {name: f"layer.{name}" for name in lifted}
    return Task(
        "some", "function", names, reference, inputs, Entry(("f",), "arguments", names, weights), lifted=weights
    )


SQUARE = (32, 48)
REFUSED = {
    "changes its inputs": (task_of(lambda x: x.relu_() + 1, SQUARE), "its reference changes x"),
    "changes what is in a list": (
        replace(
            task_of(lambda x: x[0].relu_() + 1, SQUARE),
            inputs=lambda seed: {"x": [torch.randn(SQUARE, generator=torch.Generator().manual_seed(seed))]},
        ),
        "its reference changes x",
    ),
    "returns nothing": (task_of(lambda x: None, SQUARE), "returns no tensor"),
    "gives NaN": (task_of(lambda x: x.log(), SQUARE), "output 0 of its reference has NaN"),
    "overflows throughout": (
        task_of(lambda x: (x - 4).exp() / 0, SQUARE),
        "output 0 of its reference has no finite number",
    ),
    "draws numbers": (task_of(torch.nn.functional.dropout, SQUARE), "disagrees with itself"),
    "leaves an order open": (
        task_of(lambda x, y: y[(4 * x[:, 0]).int().argsort()], (400, 3), (400, 5)),
        "output 0 of its reference depends on the order of equal elements",
    ),
    "takes any of equal elements": (
        task_of(lambda x, y: y.gather(-1, x.round().topk(8, dim=-1).indices), (8, 400), (8, 400)),
        "depends on the order of equal elements, which sort and topk leave open",
    ),
    "has zero weights": (
        task_of(lambda x, y: x @ y + x.sum(), SQUARE, (48, 8), zero="y", lifted="y"),
        "the weight layer.y is zero",
    ),
    "follows its weights alone": (
        task_of(lambda x, y: 0 * x[:, :1] + y, SQUARE, (8,), lifted="y"),
        "hardly depend on its inputs",
    ),
    "subtracts a maximum from itself": (
        task_of(lambda x: torch.nn.functional.gelu(x.amax(1, True) - x.amax(1, True).mean(1, True)), SQUARE),
        "output 0 is 0 but for 1 %",
    ),
    "is saturated": (task_of(lambda x: torch.sigmoid(x + 30), SQUARE), "output 0 is 1 but for 1 %"),
    "is a mean of even numbers": (
        task_of(lambda x: x.mean(-1) + 0.01 * x[0, 0], (32, 9000), draw=torch.rand),
        "so a constant passes a tolerance of 1e-2",
    ),
    "is a mean of normal numbers": (task_of(lambda x: x.mean(-1), (8, 250000)), "numbers around zero cancel"),
    "is nearly a copy": (
        task_of(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), (4, 60000)),
        "output 0 is x but for 1 %",
    ),
    "cuts off what is not there": (task_of(lambda x: x.clamp(-20, 20), SQUARE), "output 0 is x but for 1 %"),
    "is always the same": (
        task_of(lambda x: x.exp(), SQUARE, draw=lambda shape, generator: torch.linspace(0, 1, 1536).reshape(shape)),
        "its inputs are the same for every seed",
    ),
    "raises": (task_of(lambda x: x @ x, SQUARE), "raises RuntimeError on its own inputs"),
}
ACCEPTED = {
    "keeps an order": task_of(lambda x, y: y[(4 * x[:, 0]).int().argsort(stable=True)], (400, 3), (400, 5)),
    "returns an order alone": task_of(lambda x: ((4 * x).int().argsort(dim=0), x.exp()), (400, 3)),
    "sorts, and sorts back": task_of(lambda x: x[(o := (4 * x).int().argsort())].exp()[o.argsort()], (400,)),
    "sorts what has no equal ones": task_of(lambda x, y: y[x[:, 0].argsort(descending=True)], (400, 3), (400, 5)),
    "a softmax": task_of(lambda x: torch.softmax(x, -1), (4, 20000)),
    "a product": task_of(lambda x, y: x @ y, (64, 4000), (4000, 16)),
    "a sum": task_of(lambda x: x.sum(-1), (32, 4000)),
    "a copy": task_of(lambda x: x.clone(), SQUARE),
    "an index": task_of(lambda x: x.argmax(-1), SQUARE),
    "numbers of eight bits": task_of(
        lambda x: x.float() * 3,
        SQUARE,
        draw=lambda shape, generator: torch.randn(shape, generator=generator).to(torch.float8_e4m3fn),
    ),
}


@pytest.mark.parametrize(("task", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_degenerate_task_is_refused(task, message):
    (charge,) = quality_of(task, 0).charges
    assert charge.refusal is Refusal.DEGENERATE_TASK and charge.where == "as posed"
    assert message in charge.message


@pytest.mark.parametrize("task", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_other_tasks_are_not_refused(task):
    quality = quality_of(task, 0)
    assert quality.charges == () and quality.notes == ()


def test_an_input_without_influence_is_told():
    quality = quality_of(task_of(lambda x, y: x.relu() + 0 * y, SQUARE, SQUARE), 0)
    assert quality.charges == ()
    assert quality.notes == ("results hardly depend on y: a candidate may leave it out",)


def test_a_task_that_does_not_fit_into_memory_is_refused_before_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(lambda x: x.exp(), (1000, 1000))
    assert quality_of(task, 0).charges == ()
    monkeypatch.setattr("opsmith.judging.quality.available_memory_bytes", lambda device: 100_000_000)
    found = quality_of(task, 0)
    (charge,) = found.charges
    assert charge.refusal is Refusal.LARGE_TASK
    assert "pose smaller inputs" in charge.message
    assert not found.can_be_called
