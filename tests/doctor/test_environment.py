"""Variables that are set and cannot be are found, with what fixes them; a right value is passed over."""

from __future__ import annotations

import pytest

from opsmith._env import VARIABLES
from opsmith.doctor.environment import find_slips, judge_slips


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for variable in VARIABLES:
        if variable.name not in ("PATH", "OPSMITH_CACHE_DIR"):
            monkeypatch.delenv(variable.name, raising=False)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("TORCH_CUDA_ARCH_LIST", "9.0;blurb", "'blurb' is not a CUDA architecture"),
        ("OPSMITH_CUDA_ARCHS", ";", "is empty"),
        ("TORCH_CUDA_ARCH_LIST", "native", "torch does not see one"),
        ("PYTORCH_ROCM_ARCH", "sm_90", "is not a ROCm architecture"),
        ("ROCM_PATH", "/nowhere", "program /nowhere/bin/hipcc not found"),
        ("NVCC_CCBIN", "nowhere++", "'nowhere++' is not installed"),
        ("OPSMITH_JOBS", "-1", "not a number of compilers"),
        ("MAX_JOBS", "many", "not a number of compilers"),
        ("OPSMITH_BRIDGE", "maybe", "auto, wait or off"),
        ("OPSMITH_PCH", "on", "auto, wait or off"),
        ("ROCM_PATH", "~nosuchuser/rocm", "~nosuchuser has no home folder"),
        ("OPSMITH_CONFIG_DIR", "~nosuchuser/keys", "~nosuchuser has no home folder"),
        ("OPSMITH_SIGNING_KEY", "~nosuchuser/key", "~nosuchuser has no home folder"),
        ("CPATH", "/opt/include:/usr/include", "stdlib.h"),
    ],
)
def test_a_wrong_value_is_a_problem(monkeypatch, name, value, reason):
    monkeypatch.setenv(name, value)
    slips = find_slips()
    assert [(slip.name, slip.value) for slip in slips] == [(name, value)]
    assert reason in slips[0].reason
    finding = judge_slips(slips)[0]
    assert finding.status == "problem"
    assert finding.remedy == f"unset {name}" or finding.remedy.startswith(f"export {name}=")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_CUDA_ARCH_LIST", "8.0;9.0a+PTX 12.0f"),
        ("OPSMITH_CUDA_ARCHS", "all-major"),
        ("PYTORCH_ROCM_ARCH", "gfx90a;gfx942"),
        ("OPSMITH_JOBS", "4"),
        ("OPSMITH_BRIDGE", "off"),
        ("CPATH", "/opt/include"),
        ("CXX", ""),
    ],
)
def test_a_right_value_is_passed_over(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert find_slips() == ()


def test_native_is_right_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "native")
    assert find_slips(has_gpu=True) == ()


def test_a_slip_of_the_pen_is_a_warning(monkeypatch):
    monkeypatch.setenv("OPSMITH_JOB", "3")
    finding = judge_slips(find_slips())[0]
    assert (finding.status, finding.title, finding.remedy) == ("warning", "OPSMITH_JOB", "unset OPSMITH_JOB")
