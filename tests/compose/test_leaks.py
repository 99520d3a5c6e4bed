"""Calls leave nothing behind: no memory, no reference to a tensor, no graph that outlives its output."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator

from opsmith.errors import ShapeError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell

pytestmark = pytest.mark.compile


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth_bytes(work: Callable[[], object], calls: int) -> int:
    """Return how much the process grew over some calls, after others that let allocators and caches settle."""
    for _ in range(max(calls // 4, 40)):
        work()
    gc.collect()
    before = resident_bytes()
    for _ in range(calls):
        work()
    gc.collect()
    return resident_bytes() - before


def live_tensors() -> int:
    gc.collect()
    return sum(type(found) is torch.Tensor for found in gc.get_objects())


@each_case
def test_tensors_are_freed_at_once_and_without_the_garbage_collector(case: Case):
    gc.collect()
    gc.disable()
    try:
        for requires_grad in (False, True):
            arguments = case.make(requires_grad=requires_grad)
            outputs = case.found(*arguments)
            if requires_grad:
                torch.autograd.grad(outputs[0].sum(), arguments, allow_unused=True)
            watched = [weakref.ref(tensor) for tensor in (*arguments, *outputs)]
            del arguments, outputs
            assert [reference() for reference in watched] == [None] * len(watched)
    finally:
        gc.enable()


@each_case
def test_a_graph_dies_with_its_output(case: Case):
    """Also where an output is saved for the backward, which must not make a circle."""
    arguments = case.make()
    before = live_tensors()
    outputs = case.found(*arguments)
    assert live_tensors() > before
    gc.disable()
    try:
        node = weakref.ref(outputs[0].grad_fn) if _has_weakrefs(outputs[0].grad_fn) else None
        del outputs
        assert node is None or node() is None
    finally:
        gc.enable()
    assert live_tensors() == before


def _has_weakrefs(value: object) -> bool:
    return type(value).__weakrefoffset__ != 0


@each_operator
def test_references_are_counted_right(case: Case):
    arguments = case.make()
    before = [sys.getrefcount(argument) for argument in arguments]
    for _ in range(100):
        case.total(*arguments).backward()
    assert [sys.getrefcount(argument) for argument in arguments] == before


def test_failed_calls_leave_no_references():
    a, b = torch.ones(3, requires_grad=True), torch.ones(4)
    before = sys.getrefcount(a), sys.getrefcount(b), live_tensors()
    for _ in range(100):
        with pytest.raises(ShapeError):
            add2(a, b)
        with pytest.raises(ShapeError):
            add2(a, b=b)
    assert (sys.getrefcount(a), sys.getrefcount(b), live_tensors()) == before


@each_operator
def test_memory_stays_flat_over_some_calls(case: Case):
    # Each call's results and gradients take 0.3 MB at least, so that one in three that stays would show.
    arguments = case.make(20_000, dtype=torch.float32)

    def work() -> None:
        torch.autograd.grad([output.sum() for output in case.found(*arguments)], arguments)

    assert growth_bytes(work, 40) < 4_000_000


@pytest.mark.slow("100,000 calls of every operator")
@each_operator
def test_memory_stays_flat_over_100_000_calls_with_gradients(case: Case):
    arguments = case.make(2, dtype=torch.float32)

    def work() -> None:
        torch.autograd.grad([output.sum() for output in case.found(*arguments)], arguments)

    # Less than 20 bytes a call: the smallest leak there can be is an object of 16 bytes and its allocation's head.
    assert growth_bytes(work, 100_000) < 2_000_000


@pytest.mark.slow("100,000 calls of every operator")
def test_memory_stays_flat_over_failed_calls():
    a, b = torch.ones(3, requires_grad=True), torch.ones(4)

    def work() -> None:
        try:
            add2(a, b)
        except ShapeError:
            return
        raise AssertionError

    assert growth_bytes(work, 20_000) < 2_000_000


def test_a_long_sequence_is_freed_without_recursion():
    """The graph of many steps is a chain; freeing it must not need a stack as deep."""
    cell = LLTMCell(2, 4)
    state = None
    for _ in range(20_000):
        state = cell(torch.zeros(1, 2), state)
    watched = weakref.ref(state[0])
    del state
    assert watched() is None
