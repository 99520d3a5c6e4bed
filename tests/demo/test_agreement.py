"""The comparison sees one bit, and says where; nothing compared is no agreement."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from opsmith.demo.agreement import compare, compare_builds, make_calls
from opsmith.demo.builds import Build
from opsmith.demo.worker import Call, run_calls
from opsmith.errors import LoadError

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
CALLS = [
    Call(name="one", operator="aten::neg", device="cpu", arguments=[torch.tensor([1.0, -2.0, 0.0])]),
    Call(name="none", operator="aten::neg", device="cpu", arguments=[torch.empty(0, 3)]),
]


def outputs():
    return run_calls(CALLS)


def test_equal_results_agree():
    agreement = compare({"jit": outputs(), "cmake": outputs()}, CALLS)
    assert agreement.is_total
    assert [(tally.calls, tally.numbers, tally.differing) for tally in agreement.tallies] == [(2, 3, 0)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_bit_of_one_number_is_seen(dtype):
    expected, found = [[torch.ones(5, 7, dtype=dtype)]], [[torch.ones(5, 7, dtype=dtype)]]
    found[0][0][2, 3] = 1 + torch.finfo(dtype).eps
    agreement = compare({"jit": expected, "cmake": found}, CALLS[:1])
    assert not agreement.is_total
    assert agreement.tallies[0].differing == 1
    assert agreement.differences == ("one: cmake differs from jit in 1 numbers",)


def test_minus_zero_is_not_zero():
    assert not compare({"jit": [[torch.tensor([0.0])]], "cmake": [[torch.tensor([-0.0])]]}, CALLS[:1]).is_total


def test_equal_nans_are_equal():
    nan = [[torch.tensor([float("nan")])]]
    assert compare({"jit": nan, "cmake": nan}, CALLS[:1]).is_total


@pytest.mark.parametrize(
    "other",
    [
        [[torch.zeros(3, dtype=torch.float64)]],
        [[torch.zeros(1, 3)]],
        [[torch.zeros(3), torch.zeros(3)]],
    ],
    ids=["element type", "shape", "one output more"],
)
def test_outputs_of_another_kind_differ(other):
    assert not compare({"jit": [[torch.zeros(3)]], "cmake": other}, CALLS[:1]).is_total


def test_one_library_alone_agrees_with_nobody():
    assert not compare({"jit": outputs(), "this process": outputs()}, CALLS).is_total


def test_nothing_compared_is_no_agreement():
    assert not compare({"jit": [[torch.empty(0)]], "cmake": [[torch.empty(0)]]}, CALLS[:1]).is_total


@pytest.mark.slow("the demo's builds")
def test_a_library_that_does_not_load_is_an_error(tmp_path: Path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    with pytest.raises(LoadError, match=r"broken\.so did not run on its own"):
        compare_builds([Build("jit", library=str(broken))], CALLS, 1)


def test_a_copy_keeps_its_strides():
    from opsmith.demo.worker import _copy_to

    wide = torch.arange(12.0).view(3, 4)[:, ::2]
    copy = _copy_to(wide, "meta")
    assert copy.stride() == wide.stride() and copy.device.type == "meta"


def test_calls_hold_every_operator_type_layout_and_an_empty_input():
    from opsmith.ops.lltm import lltm_cell, lltm_cell_backward, lltm_gates, lltm_gates_backward

    operators = (lltm_gates, lltm_gates_backward, lltm_cell, lltm_cell_backward)
    calls = list(make_calls(operators, ["cpu"], seed=0, quick=True))
    assert {call["operator"] for call in calls} == {
        "opsmith::lltm_gates",
        "opsmith::lltm_gates_backward",
        "opsmith::lltm_cell",
        "opsmith::lltm_cell_backward",
    }
    arguments = [argument for call in calls for argument in call["arguments"]]
    assert {argument.dtype for argument in arguments} == set(DTYPES)
    assert any(argument.numel() == 0 for argument in arguments)
    assert any(argument.storage_offset() == 1 for argument in arguments)
    assert any(argument.dim() == 2 and argument.stride(1) == 2 for argument in arguments)
    assert any(argument.dim() == 2 and 1 < argument.stride(1) == argument.shape[0] for argument in arguments)
    assert len({call["name"] for call in calls}) == len(calls)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
@pytest.mark.slow("the demo's builds")
def test_the_worker_imports_nothing_of_opsmith():
    import subprocess

    from opsmith.demo import worker

    code = f"import sys, runpy; runpy.run_path({worker.__file__!r}); sys.exit('opsmith' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
