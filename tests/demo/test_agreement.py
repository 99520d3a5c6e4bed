"""The comparison sees one bit, and says where; nothing compared is no agreement."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from opsmith.demo.agreement import compare, compare_builds
from opsmith.demo.builds import Build
from opsmith.demo.cases import DTYPES, LAYOUTS, make_cases
from opsmith.demo.worker import Case, run_cases
from opsmith.errors import LoadError

CASES = [
    Case(name="one", operator="aten::neg", device="cpu", arguments=[torch.tensor([1.0, -2.0, 0.0])]),
    Case(name="none", operator="aten::neg", device="cpu", arguments=[torch.empty(0, 3)]),
]


def outputs():
    return run_cases(CASES)


def test_equal_results_agree():
    agreement = compare({"jit": outputs(), "cmake": outputs()}, CASES)
    assert agreement.is_total
    assert [(tally.calls, tally.numbers, tally.differing) for tally in agreement.tallies] == [(2, 3, 0)]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_one_bit_of_one_number_is_seen(dtype):
    expected, found = [[torch.ones(5, 7, dtype=dtype)]], [[torch.ones(5, 7, dtype=dtype)]]
    found[0][0][2, 3] = 1 + torch.finfo(dtype).eps
    agreement = compare({"jit": expected, "cmake": found}, CASES[:1])
    assert not agreement.is_total
    assert agreement.tallies[0].differing == 1
    assert agreement.differences == ("one: cmake differs from jit in 1 numbers",)


def test_minus_zero_is_not_zero():
    assert not compare({"jit": [[torch.tensor([0.0])]], "cmake": [[torch.tensor([-0.0])]]}, CASES[:1]).is_total


def test_equal_nans_are_equal():
    nan = [[torch.tensor([float("nan")])]]
    assert compare({"jit": nan, "cmake": nan}, CASES[:1]).is_total


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
    assert not compare({"jit": [[torch.zeros(3)]], "cmake": other}, CASES[:1]).is_total


def test_one_library_alone_agrees_with_nobody():
    assert not compare({"jit": outputs(), "this process": outputs()}, CASES).is_total


def test_nothing_compared_is_no_agreement():
    assert not compare({"jit": [[torch.empty(0)]], "cmake": [[torch.empty(0)]]}, CASES[:1]).is_total


@pytest.mark.slow("the demo's builds")
def test_a_library_that_does_not_load_is_an_error(tmp_path: Path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    with pytest.raises(LoadError, match=r"broken\.so did not run on its own"):
        compare_builds([Build("jit", library=str(broken))], CASES, 1)


def test_a_copy_keeps_its_strides():
    from opsmith.demo.worker import _copy_to

    wide = torch.arange(12.0).view(3, 4)[:, ::2]
    copy = _copy_to(wide, "meta")
    assert copy.stride() == wide.stride() and copy.device.type == "meta"


def test_cases_hold_every_operator_type_layout_and_an_empty_input():
    cases = make_cases(["cpu"], seed=0)
    assert {case["operator"] for case in cases} == {
        "opsmith::lltm_gates",
        "opsmith::lltm_gates_backward",
        "opsmith::lltm_cell",
        "opsmith::lltm_cell_backward",
    }
    arguments = [argument for case in cases for argument in case["arguments"]]
    assert {argument.dtype for argument in arguments} == set(DTYPES.values())
    assert any(argument.numel() == 0 for argument in arguments)
    assert any(argument.storage_offset() == 1 for argument in arguments)
    assert any(argument.dim() == 2 and argument.stride(1) == 2 for argument in arguments)
    assert any(argument.dim() == 2 and 1 < argument.stride(1) == argument.shape[0] for argument in arguments)
    assert all(any(layout in case["name"] for case in cases) for layout in LAYOUTS)


@pytest.mark.slow("the demo's builds")
def test_layouts_do_not_change_values():
    plain, *others = [
        [case for case in make_cases(["cpu"], seed=0) if layout in case["name"] and "float64" in case["name"]]
        for layout in LAYOUTS
    ]
    assert plain and all(len(other) == len(plain) for other in others)
    for case in [case for group in (plain, *others) for case in group]:
        assert not any(argument.isnan().any() for argument in case["arguments"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
@pytest.mark.slow("the demo's builds")
def test_the_worker_imports_nothing_of_opsmith():
    import subprocess

    from opsmith.demo import worker

    code = f"import sys, runpy; runpy.run_path({worker.__file__!r}); sys.exit('opsmith' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
