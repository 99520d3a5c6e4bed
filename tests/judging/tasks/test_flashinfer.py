"""FlashInfer-Bench definitions: axes become symbols, workloads give sizes, and candidates may take their outputs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from opsmith.errors import ArgumentError
from opsmith.judging.packings import packed
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task

NORM = {
    "name": "scaled_rows",
    "op_type": "norm",
    "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 16}},
    "inputs": {
        "x": {"shape": ["rows", "hidden"], "dtype": "float16"},
        "weight": {"shape": ["hidden"], "dtype": "float16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "y": {"shape": ["rows", "hidden"], "dtype": "float16"},
        "largest": {"shape": ["rows"], "dtype": "float32"},
    },
    "reference": (
        "import torch\n\ndef run(x, weight, eps):\n    y = (x.float() * weight.float() + eps).half()\n"
        "    return {'y': y, 'largest': y.float().amax(-1)}\n"
    ),
}


def task_of(folder: Path, **changes: object) -> Task:
    path = folder / "definitions" / "norm" / "scaled_rows.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**NORM, **changes}))
    return load_task(path)


def write_workloads(folder: Path, *workloads: object) -> None:
    path = folder / "workloads" / "norm" / "scaled_rows.jsonl"
    path.parent.mkdir(parents=True)
    lines = [json.dumps({"definition": "scaled_rows", "workload": one, "solution": None}) for one in workloads]
    path.write_text("\n".join(lines))


def test_axes_become_symbols(tmp_path):
    task = task_of(tmp_path)
    assert task.parameters == ("x", "weight", "eps")
    shapes = [parameter.tensor.shape.text for parameter in task.signature.tensors]
    assert shapes == ["rows 16", "16"]
    assert [output.tensor.text for output in task.signature.outputs] == ["float16[rows 16]", "float32[rows]"]
    assert task.guessed == ()
    values = task.inputs(1)
    assert values["x"].shape == (64, 16) and values["x"].dtype is torch.float16 and values["eps"] == 1e-6


def test_workloads_give_sizes_and_numbers(tmp_path):
    inputs = {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 0.25}}
    write_workloads(tmp_path, *[{"uuid": "a", "axes": {"rows": rows}, "inputs": inputs} for rows in (7, 3, 9, 5, 8, 3)])
    task = task_of(tmp_path)
    assert list(task.makers) == ["rows=3", "rows=5", "rows=7", "rows=9"]
    assert task.makers["rows=9"](0)["eps"] == 0.25
    assert task.notes == ()


def test_recorded_inputs_that_are_not_there_are_told(tmp_path):
    source = {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"}
    write_workloads(tmp_path, {"axes": {"rows": 4}, "inputs": {"x": source}})
    task = task_of(tmp_path)
    assert task.notes == ("recorded inputs are not there (their files, or safetensors), and random: x",)
    assert task.inputs(0)["x"].shape == (4, 16)


def _name_of(run):
    return getattr(run, "__name__", None) or run.func.__name__


def returned(x, weight, eps):
    y = (x.float() * weight.float() + eps).half()
    return y, y.float().amax(-1)


def named(x, weight, eps):
    y, largest = returned(x, weight, eps)
    return {"y": y, "largest": largest}


def given(x, weight, eps, y, largest):
    y.copy_(x.float() * weight.float() + eps)
    torch.amax(y.float(), -1, out=largest)


def returned_with_an_option(x, weight, eps, block=64):
    return returned(x, weight, eps)


def returned_with_options_by_name(x, weight, eps, *, block=64, stages):
    return returned(x, weight, eps)


def given_or_not(x, weight, eps, y=None, largest=None, block=64):
    given(x, weight, eps, y, largest)


def given_in_a_row(*arguments):
    given(*arguments)


_RUNS = [returned, named, given, returned_with_an_option, given_or_not, given_in_a_row]


@pytest.mark.parametrize("run", [*_RUNS, partial(returned_with_options_by_name, stages=2)], ids=_name_of)
def test_a_candidate_returns_its_outputs_or_is_given_them(tmp_path, run):
    task = task_of(tmp_path)
    values = task.inputs(1)
    found = packed(run, task.entry, "cpu")(list(values.values()))
    for one, expected in zip(found, task.reference(*values.values()), strict=True):
        assert torch.equal(one, expected) and one.dtype is expected.dtype


def test_constraints_choose_sizes(tmp_path):
    axes = {name: {"type": "var"} for name in ("heads", "groups")} | {"ratio": {"type": "const", "value": 3}}
    task = task_of(
        tmp_path,
        axes=axes,
        inputs={"q": {"shape": ["heads"], "dtype": "float32"}, "k": {"shape": ["groups"], "dtype": "float32"}},
        outputs={"y": {"shape": ["heads"], "dtype": "float32"}},
        constraints=["heads == groups * ratio", "heads <= 60"],
        reference="def run(q, k):\n    return q * k.repeat_interleave(3)\n",
    )
    values = task.inputs(0)
    assert len(values["q"]) == 3 * len(values["k"]) <= 60


REFUSED = {
    "no reference": ({"reference": "x = 1"}, "its reference has no function run"),
    "invalid Python": ({"reference": "def run(:"}, "its reference raises SyntaxError"),
    "an unknown axis": ({"outputs": {"y": {"shape": ["n"], "dtype": "float32"}}}, "has the axis n"),
    "an unknown type": ({"outputs": {"y": {"shape": [], "dtype": "float4_e2m1"}}}, "which PyTorch lacks"),
    "a free axis": ({"axes": {**NORM["axes"], "k": {"type": "var"}}}, "no input has the variable axis k"),
    "no shape": ({"inputs": {"x": {"dtype": "float32"}}}, "is not described"),
    "impossible constraints": ({"constraints": ["rows < 0"]}, "no sizes were found"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_with_a_definition_is_told(tmp_path, changes, message):
    with pytest.raises(ArgumentError, match=message):
        task_of(tmp_path, **changes)


def test_json_that_is_something_else_is_told(tmp_path):
    (tmp_path / "some.json").write_text("[1, 2]")
    with pytest.raises(ArgumentError, match="lacks an object at its top"):
        load_task(tmp_path / "some.json")
    (tmp_path / "some.json").write_text("{")
    with pytest.raises(ArgumentError, match="is not JSON"):
        load_task(tmp_path / "some.json")
