"""Calls leave nothing behind: no memory, no reference to a tensor, no graph that outlives its output."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator

from opsmith.checker.memory.heap import heap_bytes
from opsmith.errors import ShapeError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell

pytestmark = pytest.mark.compile


@pytest.fixture(autouse=True)
def older_objects_aside() -> Iterator[None]:
    """Keep the garbage collector to what a test makes: going through torch's compiler takes it a second each time."""
    gc.freeze()
    yield
    gc.unfreeze()


class Held(NamedTuple):
    """What a process holds: bytes of malloc's, Python's own blocks, and all of it as the kernel counts pages."""

    malloc_bytes: int
    python_blocks: int
    resident_bytes: int


def held() -> Held:
    """Return what this process holds. The first two numbers are exact: calls that leave nothing do not change them."""
    gc.collect()
    heap = heap_bytes()
    if heap is None:
        pytest.skip("needs the counters of glibc 2.33 or later")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(heap, sys.getallocatedblocks(), pages * os.sysconf("SC_PAGE_SIZE"))


def assert_flat(work: Callable[[], object], calls: int, *, pages: int = 4_000_000) -> None:
    """Assert that calls leave nothing, after others that let allocators and caches settle.

    `pages` is how many bytes of them may come or go, which are counted for what malloc does not give out.
    """
    for _ in range(max(calls // 4, 20)):
        work()
    before = held()
    for _ in range(calls):
        work()
    grown = Held(*(now - then for now, then in zip(held(), before, strict=True)))
    # The smallest leak there can be is 32 bytes of malloc's or one block of Python's at each call.
    counted = max(calls, 1_000)
    assert grown.malloc_bytes < 16 * counted, grown
    assert grown.python_blocks < counted // 2, grown
    assert grown.resident_bytes < pages, grown


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


def differentiated(case: Case, batch: int) -> Callable[[], object]:
    arguments = case.make(batch, dtype=torch.float32)
    return lambda: torch.autograd.grad([output.sum() for output in case.found(*arguments)], arguments)


@each_operator
def test_memory_stays_flat_over_some_calls(case: Case):
    assert_flat(differentiated(case, 2), 1_000)


@each_operator
def test_memory_stays_flat_over_calls_with_large_tensors(case: Case):
    # Above 128 KB malloc maps memory of its own, and keeps some of what was freed.
    assert_flat(differentiated(case, 10_000), 20, pages=16_000_000)


@pytest.mark.slow("10,000 calls of every operator")
@each_operator
def test_memory_stays_flat_over_10_000_calls_with_gradients(case: Case):
    assert_flat(differentiated(case, 2), 10_000)


def test_memory_stays_flat_over_failed_calls():
    a, b = torch.ones(3, requires_grad=True), torch.ones(4)

    def work() -> None:
        try:
            add2(a, b)
        except ShapeError:
            return
        raise AssertionError

    assert_flat(work, 2_000)


def test_a_long_sequence_is_freed_without_recursion():
    """The graph of many steps is a chain; freeing it must not need a stack as deep."""
    cell = LLTMCell(2, 4)
    state = None
    for _ in range(20_000):
        state = cell(torch.zeros(1, 2), state)
    watched = weakref.ref(state[0])
    del state
    assert watched() is None
