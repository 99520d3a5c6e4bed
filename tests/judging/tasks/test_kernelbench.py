"""KernelBench problems: weights become arguments, equal sizes become symbols, and candidates are matched strictly."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from opsmith.errors import ArgumentError
from opsmith.judging.api import judge
from opsmith.judging.packings import OpeningError, packed
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task

LINEAR = """
import torch

class Model(torch.nn.Module):
    def __init__(self, inputs, sizes):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, sizes[0])
        self.norm = torch.nn.LayerNorm(sizes[0])

    def forward(self, x, scale):
        return self.norm(self.linear(x)) * scale

def get_inputs():
    return [torch.randn(24, 40), 2.5]

def get_init_inputs():
    return [40, (56,)]
"""
BATCH_NORM = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(10)
        self.register_buffer("shift", torch.randn(10))

    def forward(self, x):
        return self.norm(x) + self.shift

def get_inputs():
    return [torch.randn(24, 10)]
"""
RECURRENT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(8, 16, batch_first=True)
        self.linear = torch.nn.Linear(16, 11)

    def forward(self, x):
        return self.linear(self.rnn(x)[0])

def get_inputs():
    return [torch.randn(24, 9, 8)]
"""


def task_of(tmp_path: Path, text: str, name: str = "problem.py") -> Task:
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return load_task(path)


def called(task: Task, text: str, seed: int = 7) -> torch.Tensor:
    """Return what a candidate gives for the task's own inputs, called as its process calls it."""
    found: dict = {}
    exec(textwrap.dedent(text), found)
    function = packed(next(found[name] for name in task.entry.names if name in found), task.entry, "cpu")
    values = task.inputs(seed)
    return function([values[name] for name in task.parameters])


def test_weights_become_arguments(tmp_path):
    task = task_of(tmp_path, LINEAR)
    assert task.kind == "kernelbench"
    assert task.parameters == ("x", "scale", "linear_weight", "linear_bias", "norm_weight", "norm_bias")
    assert task.lifted["linear_weight"] == "linear.weight"
    assert task.entry.init == (40, {"tuple": [56]})
    one, other = task.inputs(3), task.inputs(4)
    assert not torch.equal(one["linear_weight"], other["linear_weight"])
    expected = torch.nn.functional.linear(one["x"], one["linear_weight"], one["linear_bias"])
    expected = torch.nn.functional.layer_norm(expected, (56,), one["norm_weight"], one["norm_bias"]) * 2.5
    assert torch.equal(task.reference(*one.values()), expected)


def test_the_same_seed_gives_the_same_numbers_in_new_tensors(tmp_path):
    task = task_of(tmp_path, LINEAR)
    state = torch.random.get_rng_state()
    one, again = task.inputs(3), task.inputs(3)
    assert torch.equal(one["x"], again["x"]) and one["x"].data_ptr() != again["x"].data_ptr()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_weights_that_are_constant_at_first_vary(tmp_path):
    values = task_of(tmp_path, LINEAR).inputs(3)
    assert values["norm_weight"].std() > 0.05
    assert values["norm_bias"].std() > 0.05


def test_equal_sizes_become_symbols(tmp_path):
    task = task_of(tmp_path, LINEAR)
    assert task.guessed == (
        "B = 24 (x[0])",
        "N = 40 (x[1], linear_weight[1])",
    )
    assert task.signature.outputs[0].tensor.shape.text == "B 56"


def test_sizes_of_recurrent_weights_stay(tmp_path):
    """PyTorch ends by a signal where those of an LSTM do not fit, and reads past them."""
    task = task_of(tmp_path, RECURRENT)
    assert task.guessed == ("B = 24 (x[0])", "N = 9 (x[1])", "M = 11 (linear_weight[0], linear_bias[0])")
    assert any(note.startswith("sizes of 8, 16, 64 stay") for note in task.notes)
    assert task.signature.parameters[1].tensor.shape.text == "64 8"


@pytest.mark.slow("asks for all properties")
def test_a_recurrent_module_is_judged_as_an_operator(tmp_path):
    problem, copy = tmp_path / "problem.py", tmp_path / "copy.py"
    problem.write_text(RECURRENT)
    copy.write_text(RECURRENT.replace("class Model", "class ModelNew"))
    judgement = judge(problem, copy, device="cpu", time=False)
    assert judgement.ok, str(judgement)
    assert judgement.as_operator.state == "accepted"


def test_buffers_that_the_module_changes_itself_are_no_arguments(tmp_path):
    task = task_of(tmp_path, BATCH_NORM)
    assert task.parameters == ("x", "shift", "norm_weight", "norm_bias")
    values = task.inputs(3)
    first = task.reference(*values.values())
    assert torch.equal(task.reference(*values.values()), first)


TIED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.there = torch.nn.Linear(6, 6, bias=False)
        self.back = torch.nn.Linear(6, 6, bias=False)
        self.back.weight = self.there.weight
        self.register_buffer("shift", torch.ones(6, dtype=torch.int64))

    def forward(self, x):
        return self.back(torch.relu(self.there(x))) + self.shift

def get_inputs():
    return [torch.randn(4, 6)]
"""


@pytest.mark.parametrize("text", [LINEAR, BATCH_NORM, TIED])
def test_a_call_leaves_the_module_as_it_was(tmp_path, text):
    task = task_of(tmp_path, text)
    first = task.inputs(3)
    found = task.reference(*first.values())
    other = task.reference(*task.inputs(4).values())
    assert not torch.equal(found, other)
    assert torch.equal(found, task.reference(*first.values()))
    with pytest.raises((RuntimeError, ValueError)):
        task.reference(*({**first, "x": torch.zeros(1, 1, 1, 1, 7)}).values())
    assert torch.equal(found, task.reference(*first.values()))
    # The seed that the module itself was built with.
    assert all(isinstance(value, torch.Tensor | float) for value in task.inputs(42).values())


def test_a_tied_weight_is_one_argument_everywhere(tmp_path):
    task = task_of(tmp_path, TIED)
    assert task.parameters == ("x", "there_weight")
    x, weight = torch.randn(4, 6), torch.randn(6, 6)
    assert torch.equal(task.reference(x, weight), torch.relu(x @ weight.t()) @ weight.t() + 1)


def test_a_reference_runs_in_double_precision(tmp_path):
    values = {name: value.double() for name, value in task_of(tmp_path, BATCH_NORM).inputs(3).items()}
    assert task_of(tmp_path, BATCH_NORM).reference(*values.values()).dtype is torch.float64


def test_a_candidate_gets_the_weights(tmp_path):
    task = task_of(tmp_path, LINEAR)
    values = task.inputs(7)
    found = called(task, LINEAR.replace("class Model(", "class ModelNew("))
    assert torch.equal(found, task.reference(*values.values()))


def test_a_function_gets_all_arguments(tmp_path):
    task = task_of(tmp_path, LINEAR)
    text = """
    import torch
    def custom_kernel(x, scale, weight, bias, gain, shift):
        y = torch.nn.functional.linear(x, weight, bias)
        return torch.nn.functional.layer_norm(y, y.shape[-1:], gain, shift) * scale
    """
    assert torch.equal(called(task, text), task.reference(*task.inputs(7).values()))


CHANGES = {
    "lacks a weight": (
        "self.norm = torch.nn.LayerNorm(sizes[0])",
        "self.norm = torch.nn.LayerNorm(sizes[0], bias=False)",
    ),
    "names one otherwise": ("self.linear", "self.layer"),
    "has one more": ("super().__init__()", "super().__init__(); self.more = torch.nn.Parameter(torch.ones(3))"),
    "has another shape": ("torch.nn.LayerNorm(sizes[0])", "torch.nn.LayerNorm(1)"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parameters_are_matched_strictly(tmp_path, change):
    task = task_of(tmp_path, LINEAR)
    with pytest.raises(OpeningError, match="its state dict must have the task's names") as raised:
        called(task, LINEAR.replace("class Model(", "class ModelNew(").replace(*change))
    assert raised.value.refusal == "missing parameters"


def test_gradients_reach_the_weights(tmp_path):
    task = task_of(tmp_path, LINEAR)
    values = task.inputs(7)
    values["linear_weight"].requires_grad_()
    found: dict = {}
    exec(LINEAR.replace("class Model(", "class ModelNew("), found)
    packed(found["ModelNew"], task.entry, "cpu")(list(values.values())).sum().backward()
    assert values["linear_weight"].grad is not None


REFUSED = {
    "raises": ("def get_inputs():\n    raise ValueError('no file')", "get_inputs raises ValueError: no file"),
    "takes others": ("def get_inputs():\n    return [torch.randn(3, 4), 2.0]", "does not take its own inputs"),
    "is built with a tensor": ("def get_init_inputs():\n    return [40, (torch.ones(1),)]", "Model raises"),
    "gives an object": ("def get_inputs():\n    return [object(), 2.0]", "input 0 is a object"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_with_a_problem_is_told(tmp_path, text, message):
    with pytest.raises(ArgumentError, match=message):
        task_of(tmp_path, LINEAR + "\n" + text)


def test_files_beside_a_task_do_not_stay_imported(tmp_path):
    for folder, number in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sizes_of_task.py").write_text(f"ROWS = {number}\n")
        text = "from sizes_of_task import ROWS\n" + BATCH_NORM.replace("randn(24", "randn(24 * ROWS")
        task = task_of(tmp_path / folder, text)
        assert task.inputs(0)["x"].shape[0] == 24 * number


def test_few_rows_of_a_large_call_show_what_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr("opsmith.judging.tasks.modules._MANY", 100)
    text = BATCH_NORM.replace("import torch", "import torch\nseen = []", 1)
    text = text.replace("        return", "        seen.append(len(x))\n        return")
    few = task_of(tmp_path, text, "few.py")
    assert sys.modules["opsmith_task_few"].seen[0] == 2
    assert few.parameters == ("x", "shift", "norm_weight", "norm_bias")
    # One that takes the task's own rows alone is called with all of them.
    fixed = task_of(tmp_path, text.replace("self.norm(x)", "self.norm(x.reshape(24, 10))"), "fixed.py")
    assert sys.modules["opsmith_task_fixed"].seen[:2] == [2, 24]
    assert fixed.parameters == few.parameters
