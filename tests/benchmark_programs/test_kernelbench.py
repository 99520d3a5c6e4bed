"""benchmarks/kernelbench.py makes problems smaller, and tells a refused task from a refused copy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "kernelbench.py"
PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x * 64, 1)

batch_size = 128
size, few = 1024, 3

def get_inputs():
    return [torch.randn(batch_size, size)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_kernelbench", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_of_the_top_level_are_divided(program: ModuleType) -> None:
    text = program.divided(PROBLEM, 16, 2)
    assert "batch_size = 2\n" in text
    assert "(64, 3)" in text
    assert "x * 64" in text
    assert "batch_size = 8\n" in program.divided(PROBLEM, 64, 0)


def test_what_is_small_is_found_out_by_a_call(program: ModuleType) -> None:
    assert program.is_small(program.divided(PROBLEM, 16, 2))
    assert not program.is_small(PROBLEM.replace("128", "8192"))
    assert not program.is_small(PROBLEM.replace("torch.softmax", "torch.no_such_function"))


@pytest.mark.slow("judges three candidates")
def test_a_copy_is_accepted_and_a_degenerate_task_is_refused(program: ModuleType) -> None:
    found = program.judged(program.divided(PROBLEM, 16, 2), "cpu")
    assert (found["verdict"], found["reasons"]) == ("accepted", [])
    found = program.judged(program.divided(PROBLEM.replace("x * 64", "x * 0"), 16, 2), "cpu")
    assert found["verdict"] == "task refused"
    assert found["reasons"][0].startswith("degenerate task: ")
    assert program.judged("", "cpu")["verdict"] == "not read"
