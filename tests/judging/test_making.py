"""Inputs are made on the device where they are judged, as far as the task's own code lets them."""

from __future__ import annotations

import torch
from torch import Tensor

from opsmith.judging.candidate import Entry
from opsmith.judging.making import made_on
from opsmith.judging.task import Task
from opsmith.judging.tasks.places import here, on_device

META = torch.device("meta")


def _task(make: object) -> Task:
    return Task("f", "function", ("x",), lambda x: x, make, Entry(("f",)), {"one": make})  # type: ignore[arg-type]


def test_inputs_are_made_on_the_device() -> None:
    made: list[str] = []

    def make(seed: int) -> dict[str, Tensor]:
        x = torch.zeros(3)
        made.append(x.device.type)
        return {"x": x}

    task = made_on(_task(make), "meta")
    assert {task.inputs(1)["x"].device.type, task.posed["one"](1)["x"].device.type, *made} == {"meta"}
    assert made_on(_task(make), "cpu").inputs is make


def test_code_that_needs_the_cpu_is_not_asked_twice() -> None:
    made: list[str] = []

    def make(seed: int) -> dict[str, Tensor]:
        made.append(torch.get_default_device().type)
        return {"x": torch.from_numpy(torch.zeros(seed + 1).numpy())}

    task = made_on(_task(make), "meta")
    assert [task.inputs(seed)["x"].device.type for seed in range(3)] == ["meta"] * 3
    assert made == ["meta", "cpu", "cpu", "cpu"]


def test_gaps_and_offsets_stay_on_another_device() -> None:
    x = torch.zeros(6, 8)[1:, 1::2]
    (moved,) = on_device({"x": [x]}, "meta")["x"]
    assert moved.device == META
    assert moved.stride() == x.stride()
    assert moved.storage_offset() == 9
    assert on_device({"x": x, "n": 3}, "cpu")["x"] is x


def test_what_is_there_is_not_copied() -> None:
    x = torch.zeros(3)
    assert here(x) is x
    with META:
        assert here(x).device == META
