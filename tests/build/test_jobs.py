"""How many compilers run at once: what the user says, else what cores and memory bear."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.build import jobs
from opsmith.build.plan import Plan
from opsmith.spec.extension import Extension, Source

GIB = 1 << 30


def plan(*sources: Source) -> Plan:
    return Plan(Extension("x", Path(), sources, ("cpu",)), {}, (), "x.so", {})


def full(count: int) -> Plan:
    return plan(*(Source(f"{index}.cpp", "cxx", "full") for index in range(count)))


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    for name in ("OPSMITH_JOBS", "MAX_JOBS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jobs, "cpu_count", lambda: 16)


@pytest.mark.parametrize(("free", "expected"), [(64 * GIB, 16), (8 * GIB, 3), (5 * GIB, 2), (1 * GIB, 1), (None, 16)])
def test_as_many_torch_sources_compile_at_once_as_fit_into_memory(monkeypatch, free, expected):
    monkeypatch.setattr(jobs, "available_memory_bytes", lambda: free)
    assert jobs.choose_jobs(full(20)) == expected


def test_small_sources_are_not_held_back_by_memory(monkeypatch):
    monkeypatch.setattr(jobs, "available_memory_bytes", lambda: 6 * GIB)
    assert jobs.choose_jobs(plan(*(Source(f"{index}.cpp", "cxx", "none") for index in range(20)))) == 16
    # One large source among small ones: all fit.
    mixed = [Source("a.cpp", "cxx", "full"), *(Source(f"{index}.cpp", "cxx", "none") for index in range(4))]
    assert jobs.choose_jobs(plan(*mixed)) == 16


def test_the_user_has_the_last_word(monkeypatch):
    monkeypatch.setattr(jobs, "available_memory_bytes", lambda: GIB)
    assert jobs.choose_jobs(full(8), 7) == 7
    monkeypatch.setenv("MAX_JOBS", "5")
    assert jobs.choose_jobs(full(8)) == jobs.usable_jobs() == 5
    monkeypatch.setenv("OPSMITH_JOBS", "3")
    assert jobs.choose_jobs(full(8)) == 3
    monkeypatch.setenv("OPSMITH_JOBS", "many")
    assert jobs.choose_jobs(full(8)) == 5
