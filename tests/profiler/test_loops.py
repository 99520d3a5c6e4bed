"""The loops that levels are timed by: they make the calls that they are given, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from opsmith.profiler.loops import empty_loop, python_loop, window

CALLS = [((1, "a"), {"key": 0.5}), ((2, "b"), {"key": 1.5})]


def test_a_function_is_called_with_each_set_of_arguments_in_turn() -> None:
    seen: list[Any] = []

    def function(number: int, text: str, *, key: float) -> None:
        seen.append((number, text, key))

    taken = python_loop(function, CALLS[0])(CALLS, 5)
    assert seen == [(1, "a", 0.5), (2, "b", 1.5), (1, "a", 0.5), (2, "b", 1.5), (1, "a", 0.5)]
    assert taken["call"] > 0


def test_a_function_without_arguments_is_called_too() -> None:
    seen: list[int] = []
    python_loop(lambda: seen.append(1), ((), {}))([((), {})], 3)
    assert len(seen) == 3


def test_a_guard_is_entered_around_the_calls() -> None:
    order: list[str] = []

    class Guard:
        def __enter__(self) -> None:
            order.append("in")

        def __exit__(self, *_: object) -> None:
            order.append("out")

    python_loop(order.append, (("call",), {}), Guard)([(("call",), {})], 1)
    assert order == ["in", "call", "out"]


def test_an_empty_loop_calls_nothing() -> None:
    assert set(empty_loop(CALLS[0])(CALLS, 10)) == {"loop"}


@pytest.mark.parametrize(("offset", "count", "expected"), [(0, 2, [0, 1]), (2, 2, [2, 0]), (1, 9, [1, 2, 0])])
def test_a_window_goes_round_and_has_each_call_at_most_once(offset: int, count: int, expected: list[int]) -> None:
    calls = [((index,), {}) for index in range(3)]
    assert [args[0] for args, _ in window(calls, offset, count)] == expected
