"""Sanitizers: a defect is told with the user's line, what is right passes, and what is said without one is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from kit import sanitized

from opsmith.checker.outcome import Outcome
from opsmith.checker.sanitize.output import read_output
from opsmith.checker.sanitize.run import Request, run_sanitizer
from opsmith.checker.sanitize.tools import environment_of, find_compute_sanitizer
from opsmith.cli.check import command
from opsmith.errors import ArgumentError, ToolchainError
from opsmith.ops.add2 import add2
from opsmith.ops.roi_pool.sized import roi_pool_sized
from opsmith.ops.sigmoid import sigmoid
from some import some

KINDS = ("address", "undefined", "thread")
KERNELS = Path(sanitized.__file__).with_suffix(".cpp")


def sanitize(op: Any, kind: str) -> Outcome:
    try:
        report = run_sanitizer(op, kind)
    except ToolchainError as error:
        pytest.skip(str(error))
    (result,) = report.results
    assert result.name == kind
    assert report.seed == 0
    return result.outcome


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(KERNELS.read_text().splitlines(), 1) if text in line)


@pytest.mark.compile
@pytest.mark.slow("builds and runs under the compilers' sanitizers")
@pytest.mark.parametrize(
    ("op", "kind", "what", "text"),
    [
        (sanitized.shifted, "address", "heap-buffer-overflow, READ of size 4", "one too far"),
        (sanitized.bits, "undefined", "shift exponent 32 is too large for 32-bit type 'int'", "up to 34"),
        (sanitized.raced, "thread", "data race", "by all threads"),
    ],
)
def test_a_defect_is_told_with_its_line(op: Any, kind: str, what: str, text: str) -> None:
    finding = sanitize(op, kind).findings[0]
    assert finding.message.startswith(f"sanitized.cpp:{line_of(text)}: {what}")
    assert f"{line_of(text)} | " in finding.message
    assert text in finding.message
    assert ", in the call with " in finding.message


@pytest.mark.compile
@pytest.mark.parametrize("kind", some(KINDS, 0, "builds and runs under the compilers' sanitizers", at_most=1))
def test_what_is_right_passes(kind: str) -> None:
    outcome = sanitize(sanitized.copied, kind)
    assert outcome.state == "passed", outcome
    assert outcome.inputs > 30


@pytest.mark.compile
@pytest.mark.parametrize("kind", some(KINDS, 0, "builds and runs under the compilers' sanitizers", at_most=1))
def test_the_library_passes(kind: str) -> None:
    outcome = sanitize(roi_pool_sized, kind)
    assert outcome.state == "passed", outcome
    assert outcome.inputs > 100


@pytest.mark.compile
@pytest.mark.slow("builds and runs under the compilers' sanitizers")
def test_a_kernel_that_does_not_compile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sanitize_broken.py").write_text(
        "import opsmith\nfrom jaxtyping import Float32\nfrom torch import Tensor\n\n"
        "@opsmith.op(cpu='sanitize_broken.cpp')\n"
        "def broken(x: Float32[Tensor, 'N']) -> Float32[Tensor, 'N']:\n    '''x'''\n    return x.clone()\n"
    )
    (tmp_path / "sanitize_broken.cpp").write_text("#include <opsmith/kernel.h>\nvoid broken(\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import sanitize_broken  # type: ignore[import-not-found]

    outcome = sanitize(sanitize_broken.broken, "undefined")
    assert outcome.state == "not run"
    assert "sanitize_broken.cpp" in outcome.note


def test_what_cannot_be_sanitized() -> None:
    with pytest.raises(ArgumentError, match="unknown sanitizer 'memory'; there are address, undefined, thread, mem"):
        run_sanitizer(add2, "memory")
    with pytest.raises(ArgumentError, match="was not built by opsmith"):
        run_sanitizer(torch.ops.aten.add.Tensor, "address")
    with pytest.raises(ArgumentError, match="needs a request"):
        run_sanitizer(torch.ops.aten.add.Tensor, "memcheck")


def test_no_kernel_for_a_gpu() -> None:
    (result,) = run_sanitizer(sanitized.copied, "memcheck").results
    assert result.outcome.state == "not run"
    assert "has no kernel for cuda" in result.outcome.note


def test_a_missing_compute_sanitizer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        found = find_compute_sanitizer()
    except ToolchainError as error:
        assert "cuda-sanitizer" in str(error)
    else:
        assert found.name == "compute-sanitizer"  # beside an nvcc in a usual place


def test_lines_are_asked_of_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Xptxas=-v")
    found = environment_of("memcheck", tmp_path)
    assert found["NVCC_APPEND_FLAGS"] == "-Xptxas=-v -lineinfo"
    assert found["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
    assert environment_of("racecheck", tmp_path)["NVCC_APPEND_FLAGS"] == "-Xptxas=-v -lineinfo -DOPSMITH_RACECHECK"


GPU_OUTPUT = """
========= COMPUTE-SANITIZER
opsmith-call: plain (float32)
========= Invalid __global__ write of size 4 bytes
=========     at void smooth<float>(opsmith::View<const float, 1>)+0x150 in /somewhere/kernels/sanitized.cpp:6
=========     by thread (31,0,0) in block (0,0,0)
=========     Address 0x7f2b5d000080 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2b5d000000 of size 128 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernel [0x2f2d1f] in libcuda.so.1
=========
========= Invalid __global__ write of size 4 bytes
=========     at void smooth<float>(opsmith::View<const float, 1>)+0x150 in /somewhere/kernels/sanitized.cpp:6
=========     by thread (32,0,0) in block (0,0,0)
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<4>()+0x40
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Error: Race reported between Write access at void sum<float>()+0x210 in sanitized.cpp:15
=========     and Read access at void sum<float>()+0x240 in sanitized.cpp:16 [4 hazards]
=========
========= ERROR SUMMARY: 3 errors
"""


def test_reports_of_compute_sanitizer_are_read() -> None:
    first, second = read_output(GPU_OUTPUT, [KERNELS])
    assert (first.what, first.call) == ("Invalid __global__ write of size 4 bytes", "plain (float32)")
    assert first.source is not None
    assert (first.source.file, first.source.line) == (KERNELS, 6)
    assert second.what == "Error: Race reported between Write access"
    assert second.source is not None
    assert second.source.line == 15
    # Of an operator whose files are not known, what is not PyTorch's.
    assert [sighting.what for sighting in read_output(GPU_OUTPUT, [])] == [first.what, second.what]


@pytest.mark.compile
@pytest.mark.slow("builds and runs under the compilers' sanitizers")
def test_after_some_time_the_rest_is_left_out_and_counted() -> None:
    everything = run_sanitizer(sigmoid, "undefined").results[0].outcome
    report = run_sanitizer(sigmoid, "undefined", Request("", seconds=0))
    outcome = report.results[0].outcome
    assert outcome.state == "passed"
    assert outcome.inputs == 4  # one of each type
    assert outcome.inputs + outcome.left_out >= everything.inputs
    assert report.notes == (
        f"{outcome.left_out} of {4 + outcome.left_out} inputs did not fit into the time, the later ones of a fixed order",
    )


def test_the_command_line_is_looked_at_first() -> None:
    def ask(*words: str) -> str:
        done = CliRunner().invoke(command, ["opsmith.ops.add2", *words])
        assert done.exit_code == 2
        return done.output

    assert "unknown sanitizer 'leaks'" in ask("--sanitize", "leaks")
    assert "--large and --sanitize cannot be combined" in ask("--sanitize", "address", "--large")
    assert "seconds must be more than 0, not 0.0" in ask("--sanitize", "address", "--seconds", "0")
    assert "--device and --sanitize cannot be combined" in ask("--sanitize", "address", "--device", "cpu")


@pytest.mark.compile
@pytest.mark.slow("builds and runs under the compilers' sanitizers")
def test_on_the_command_line() -> None:
    done = CliRunner().invoke(command, ["kit.sanitized::shifted", "--sanitize", "address"])
    assert done.exit_code == 1, done.output
    assert f"✗ address, cpu: sanitized.cpp:{line_of('one too far')}: heap-buffer-overflow" in done.output
