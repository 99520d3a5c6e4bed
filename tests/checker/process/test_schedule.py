"""The schedule: which tasks run side by side, which fit into a limit, and how long each may take."""

from __future__ import annotations

from math import inf

import pytest

from opsmith.checker.process.schedule import Task, affordable, allowance, essentials_first, rounds_of
from opsmith.checker.properties.table import PROPERTIES, chosen
from opsmith.checker.report import Column

DTYPES = ("float64", "float32")


def tasks(*names: str, device: str = "cpu") -> list[Task]:
    return [Task(item, Column(device, dtype), {"T": dtype}) for item in chosen(names) for dtype in DTYPES]


def names(listed: list[Task], indices: frozenset[int]) -> list[str]:
    return list(dict.fromkeys(task.item.name for index, task in enumerate(listed) if index in indices))


def test_the_halves_run_side_by_side_and_a_gpus_tasks_beside_both():
    listed = [*tasks("value", "aliasing", "vmap"), *tasks("value", device="cuda")]
    shapes = [[[len(queue.tasks) for queue in one] for one in rounds_of(listed, 1.0, count)] for count in (1, 2, 3)]
    assert shapes == [[[6], [2]], [[4, 2], [2]], [[4, 2, 2]]]


def test_what_needs_all_cores_comes_when_the_others_are_done():
    listed = tasks("value", "aliasing", "threads", "vmap")
    rounds = [[[task.item.name for task in queue.tasks] for queue in one] for one in rounds_of(listed, 1.0, 2)]
    assert rounds == [[["value"] * 2 + ["aliasing"] * 2, ["threads", *["vmap"] * 2]], [["threads"]]]
    (alone,) = rounds_of(listed, 1.0, 2)[-1]
    assert alone.tasks[0].dtypes == {"T": "float32"}
    assert len(rounds_of(listed, inf, 2)[-1][0].tasks) == 2
    assert len(rounds_of(listed, 1.0, 1)) == 1
    assert len(rounds_of(listed, 1.0, 2, is_limited=True)) == 1


def test_every_property_has_a_weight_or_a_cost():
    assert [item.name for item in PROPERTIES if (item.weight > 0) == (item.cost_s > 0)] == []


def test_essential_properties_come_first_on_each_device():
    listed = [*tasks("value", "empty", "gradient"), *tasks("strides", "sizes", device="cuda")]
    ordered = [(task.column.device, task.item.name) for task in essentials_first(listed)]
    assert list(dict.fromkeys(ordered)) == [
        ("cpu", "value"),
        ("cpu", "gradient"),
        ("cpu", "empty"),
        ("cuda", "sizes"),
        ("cuda", "strides"),
    ]


def test_all_fit_into_no_limit():
    listed = tasks()
    assert affordable(listed, inf) == frozenset(range(len(listed)))


def test_a_limit_keeps_what_has_a_weight_and_the_cheapest_of_the_rest():
    listed = tasks("value", "sizes", "gradient", "determinism", "compile", "vmap")
    assert names(listed, affordable(listed, 0.0)) == ["value", "sizes", "gradient"]
    assert names(listed, affordable(listed, 1.0)) == ["value", "sizes", "gradient", "vmap"]
    assert names(listed, affordable(listed, 30.0)) == names(listed, frozenset(range(len(listed))))
    smaller, larger = affordable(listed, 2.0), affordable(listed, 9.0)
    assert smaller < larger


def test_what_has_no_weight_gets_the_whole_limit_where_nothing_else_is_checked():
    assert len(affordable(tasks("vmap"), 0.2)) == 2
    assert len(affordable(tasks("vmap", "value"), 0.2)) == 3


def test_a_task_gets_its_part_of_what_is_left_until_the_end():
    listed = tasks("value", "sizes", "determinism")
    first = allowance(listed, 16.0, 110.0, 100.0)
    own, all_of_them = chosen(("value",))[0].weight, 7.0
    left_s = 10.0 - 2 * chosen(("determinism",))[0].cost_s
    assert first.seconds == pytest.approx(left_s * 1.5 * own / all_of_them)
    assert first.until_s == 110.0
    assert allowance(listed, 16.0, 110.0, 120.0).seconds == 0.0
    assert allowance(listed, 16.0, inf, 120.0).seconds == pytest.approx(16.0 * 1.5 * own / all_of_them)
    assert allowance(listed[-1:], 16.0, 110.0, 100.0).seconds == chosen(("determinism",))[0].cost_s
