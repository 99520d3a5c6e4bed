"""gpu-mode tasks: nested inputs become flat arguments, outputs that come with them may be written, files lie beside."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch

from opsmith.errors import ArgumentError
from opsmith.judging.inside.results import listed
from opsmith.judging.packings import packed
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task
from opsmith.judging.tasks.trees import tensors_of

REFERENCE = """
import torch
from utils import SCALE

def generate_input(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    weights = {"gain": torch.randn(columns, generator=generator), "shift": torch.randn(columns, generator=generator)}
    return x, weights, {"eps": 1e-5}

def ref_kernel(data):
    x, weights, config = data
    return SCALE * torch.nn.functional.layer_norm(x, x.shape[-1:], weights["gain"], weights["shift"], config["eps"])

def check_implementation(data, output, rtol=1e-3, atol=1e-4):
    return torch.allclose(output, ref_kernel(data), rtol=rtol, atol=atol), ""
"""
CANDIDATE = """
import torch

def custom_kernel(data):
    x, weights, config = data
    assert isinstance(data, tuple) and isinstance(config["eps"], float)
    return 3 * torch.nn.functional.layer_norm(x, x.shape[-1:], weights["gain"], weights["shift"], config["eps"])
"""
IN_PLACE = """
import torch

def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator), torch.empty(size)

def ref_kernel(data):
    x, output = data
    output.copy_(2 * x)
    {}

def check(data, output, **bounds):
    return True, ""
"""


def task_of(folder: Path, reference: str, described: str) -> Task:
    (folder / "reference.py").write_text(textwrap.dedent(reference))
    (folder / "task.yml").write_text(textwrap.dedent(described))
    return load_task(folder)


@pytest.fixture
def nested(tmp_path) -> Task:
    (tmp_path / "common.py").write_text("SCALE = 3\n")
    return task_of(
        tmp_path,
        REFERENCE,
        """
        files:
          - {"name": "submission.py", "source": "@SUBMISSION@"}
          - {"name": "utils.py", "source": "common.py"}
          - {"name": "reference.py", "source": "reference.py"}
        tests:
          - {"rows": 20, "columns": 30, "seed": 1}
          - {"rows": 20, "columns": 30, "seed": 2}
          - {"rows": 40, "columns": 30, "seed": 2}
        benchmarks:
          - {"rows": 100, "columns": 60, "seed": 3}
        """,
    )


def test_nested_inputs_become_flat_arguments(nested):
    assert nested.parameters == ("data_0", "data_1_gain", "data_1_shift", "data_2_eps")
    assert list(nested.makers) == ["rows=20, columns=30", "rows=40, columns=30", "rows=100, columns=60"]
    assert nested.signature.outputs[0].tensor.shape.text == "B N"
    assert nested.guessed == ("B = 20 (data_0[0])", "N = 30 (data_0[1], data_1_gain[0], data_1_shift[0])")


def test_seeds_are_the_judges_own(nested):
    one, other = nested.inputs(5), nested.inputs(6)
    assert not torch.equal(one["data_0"], other["data_0"])
    assert torch.equal(one["data_0"], nested.inputs(5)["data_0"])


def test_a_candidate_gets_the_structure(nested):
    found: dict = {}
    exec(CANDIDATE, found)
    values = nested.inputs(5)
    function = packed(found["custom_kernel"], nested.entry, "cpu")
    assert torch.equal(function(list(values.values())), nested.reference(*values.values()))


def test_the_tolerance_of_the_check_is_read(nested):
    assert (nested.tolerance.absolute, nested.tolerance.relative) == (1e-4, 1e-3)


def test_an_output_that_the_reference_leaves_alone_may_be_written(tmp_path):
    reference = """
    import torch

    def generate_input(size, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(size, size, generator=generator), torch.ones(size, size), torch.empty(size, size)

    def ref_kernel(data):
        a, b, _ = data
        return a * b
    """
    task = task_of(tmp_path, reference, "tests: [{size: 20}]")
    assert task.entry.written == ("data_2",)

    def custom_kernel(data):
        return torch.mul(data[0], data[1], out=data[2])

    values = task.inputs(0)
    before = values["data_2"].clone()
    found = packed(custom_kernel, task.entry, "cpu")(list(values.values()))
    assert torch.equal(found, values["data_0"]) and torch.equal(values["data_2"].nan_to_num(), before.nan_to_num())


CHECKS = {
    "partial": "from functools import partial\ncheck_implementation = partial(check, rtol=1e-2, atol=1e-3)",
    "closure": "def make(**kwargs):\n    return lambda data, output: check(data, output, **kwargs)\n"
    "check_implementation = make(rtol=1e-2, atol=1e-3)",
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_tolerance_that_is_bound_to_a_check_is_read(tmp_path, check):
    task = task_of(tmp_path, f"{IN_PLACE.format('return output')}\n{check}", "tests: [{size: 3}]")
    assert (task.tolerance.absolute, task.tolerance.relative) == (1e-3, 1e-2)


def test_files_lie_beside_a_candidate(nested):
    assert nested.beside == {"utils.py": b"SCALE = 3\n"}


@pytest.mark.parametrize("returns", ["return output", "return None"])
def test_outputs_that_come_with_the_inputs_are_written(tmp_path, returns):
    task = task_of(tmp_path, IN_PLACE.format(returns), "tests:\n  - {size: 50}\n")
    assert task.entry.written == ("data_1",)
    values = task.inputs(1)
    before = values["data_1"].clone()
    found = task.reference(*values.values())
    found = found[0] if isinstance(found, tuple) else found
    assert torch.equal(found, 2 * values["data_0"])

    def custom_kernel(data):
        torch.mul(data[0], 2, out=data[1])

    (own,) = packed(custom_kernel, task.entry, "cpu")(list(values.values()))
    assert torch.equal(own, found)
    assert torch.equal(values["data_1"].nan_to_num(), before.nan_to_num())


REFUSED = {
    "no function": ("x = 1", "tests: [{size: 1}]", "has no generate_input and no ref_kernel"),
    "no tests": (IN_PLACE.format("pass"), "name: nothing", "has no tests"),
    "other arguments": (
        IN_PLACE.format("pass"),
        "tests: [{length: 1}]",
        r"generate_input\(length, seed\) raises TypeError",
    ),
    "no YAML": (IN_PLACE.format("pass"), "tests: [", "cannot be read"),
    "a missing file": (
        IN_PLACE.format("pass"),
        'tests: [{size: 1}]\nfiles: [{name: "utils.py", source: "../none.py"}]',
        "lists ../none.py, which is not there",
    ),
}


@pytest.mark.parametrize(("reference", "described", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_with_a_task_is_told(tmp_path, reference, described, message):
    with pytest.raises(ArgumentError, match=message):
        task_of(tmp_path, reference, described)


def test_results_of_a_dictionary_go_by_their_keys(tmp_path):
    task = task_of(
        tmp_path,
        """
        import torch

        def generate_input(size, seed):
            return torch.randn(size, 5, generator=torch.Generator().manual_seed(seed))

        def ref_kernel(x):
            return {"total": x.sum(1), "largest": x.amax(1)}
        """,
        "tests:\n  - {size: 7, seed: 1}",
    )
    (x,) = task.inputs(3).values()
    for given in (task.reference(x), {"largest": x.amax(1), "total": x.sum(1)}):
        largest, total = listed(given)
        assert torch.equal(largest, x.amax(1))
        assert torch.equal(total, x.sum(1))
        assert [one.data_ptr() for one in tensors_of(given)] == [largest.data_ptr(), total.data_ptr()]
