"""NVRTC compiles a kernel without nvcc: what goes wrong is told at the user's line, and all that it reads is in the key."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.build.artifact import obtain_artifact
from opsmith.build.diagnose import explain_failure, explain_signature
from opsmith.build.ninja import run_steps
from opsmith.build.plan import Plan
from opsmith.build.prepare import prepare
from opsmith.build.shortcut import find_by_shortcut, note_shortcut
from opsmith.errors import ToolchainError
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition, Group
from opsmith.store import Store
from opsmith.toolchain import nvrtc

sys.path.append(str(Path(__file__).parent))

from nvrtc_here import needs_nvrtc

pytestmark = [pytest.mark.compile, needs_nvrtc]

_KERNEL = """#include <opsmith/math.h>
#include "tripled.cuh"

template <class T>
__global__ void tripled(const T* x, T* y, int n) {
  const int at = blockIdx.x * 64 + threadIdx.x;
  if (at < n) y[at] = T(FACTOR * opsmith::compute_t<T>(x[at]));
}
"""


def tripled(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    return 3 * x


@pytest.fixture
def defined(tmp_path: Path) -> Callable[[str], Definition]:
    """Return a function that writes a kernel's file and declares its operator."""
    (tmp_path / "tripled.cuh").write_text('#include "deeper/factor.cuh"\n')
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "factor.cuh").write_text("#define FACTOR 3\n")

    def declare(text: str) -> Definition:
        (tmp_path / "tripled.cu").write_text(text)
        launch = opsmith.kernel(str(tmp_path / "tripled.cu:tripled"), grid="cdiv(n, 64)", block=64)
        options = OpOptions(
            cuda=launch, namespace="nvrtc", outputs="y", dtypes=(torch.float32, torch.float16, torch.bfloat16)
        )
        # As if a module beside the kernel declared it.
        return replace(define(tripled, options), file=tmp_path / "module.py")

    return declare


def _group(definition: Definition) -> Group:
    return Group(definition.module, definition.file, (definition,))


def _kernels_plan(definition: Definition) -> Plan:
    """Return a plan that compiles the kernels alone."""
    plan = prepare(_group(definition), ("cuda",), archs="9.0", strict=True).plan
    (step,) = (step for step in plan.steps if step.output == "tripled.nvrtc.json.o")
    return replace(plan, steps=(step,), library=step.output)


def _error(definition: Definition, folder: Path) -> str:
    plan = _kernels_plan(definition)
    (folder / "build").mkdir()
    output = run_steps(plan, folder / "build", jobs=2)
    assert output is not None
    return str(explain_signature(explain_failure(plan, output), [definition]))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("FACTOR *", "missing *", 'tripled.cu:7: identifier "missing" is undefined'),
        ("math.h", "kernel.h", "tripled.cu:1: <opsmith/kernel.h> has a host side, and NVRTC compiles for GPUs alone"),
        (
            "opsmith/math.h",
            "vector",
            "tripled.cu:1: vector is neither in the kernel's folder nor a header that NVRTC has",
        ),
        ('"tripled.cuh"', "HEADER", "tripled.cu:2: the header's name is a macro, HEADER"),
        ("opsmith/math.h", "cub/none.cuh", "tripled.cu:1: cub/none.cuh is not beside NVRTC"),
        (";\n}\n", ";\n", "tripled.cu:7: the file ends, and a brace is not closed"),
        ("__global__", '__global__ __launch_bounds__("x")', "tripled.cu:5: "),
    ],
)
def test_errors_are_told_at_the_kernel_s_line(
    defined: Callable[[str], Definition], tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = _error(defined(_KERNEL.replace(old, new)), tmp_path)
    assert f"{tmp_path}/{words}" in text


def test_every_header_of_opsmith_s_that_a_kernel_may_include(
    defined: Callable[[str], Definition], tmp_path: Path
) -> None:
    body = """
  float v[4] = {1, 2, 3, 4};
  double w = opsmith::math::tanh(1.0) + opsmith::math::elu(2.0f) + opsmith::math::abs(2.5f) + opsmith::divide_up(n, 3);
  w += opsmith::math::log1p(3.0) + opsmith::math::expm1(1.0f) + opsmith::math::sigmoid(1.0);
  w += opsmith::sum_over_lanes<4>(v, threadIdx.x % 32) + opsmith::any_lane(n > 3);
  if (w > 1e9) return;
"""
    head = "#include <opsmith/divide.h>\n#include <opsmith/lanes.h>\n#include <cstdint>\n#include <cstddef>\n"
    definition = defined(head + _KERNEL.replace("int n) {", f"int n) {{{body}"))
    (tmp_path / "build").mkdir()
    assert run_steps(_kernels_plan(definition), tmp_path / "build", jobs=2) is None


def test_an_error_in_the_user_s_header(defined: Callable[[str], Definition], tmp_path: Path) -> None:
    definition = defined(_KERNEL)
    (tmp_path / "deeper" / "factor.cuh").write_text("#define FACTOR 3\nint f() { return nothing; }\n")
    assert f'{tmp_path}/deeper/factor.cuh:2: identifier "nothing" is undefined' in _error(definition, tmp_path)


def test_a_declaration_that_the_preprocessor_hides_is_not_believed(
    defined: Callable[[str], Definition], tmp_path: Path
) -> None:
    other = _KERNEL.replace("int n)", "long long n)")
    text = _error(defined(f"#if 0\n{_KERNEL}#else\n{other}#endif\n"), tmp_path)
    assert "the kernel `tripled` does not match its definition" in text
    assert "its type is not that of its first declaration in the file" in text


def test_flags_are_nvrtc_s(defined: Callable[[str], Definition], tmp_path: Path) -> None:
    definition = defined(_KERNEL.replace("FACTOR", "FLAG"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "flag.cuh").write_text("#define FLAG 3\n")
    for flag, words in (
        ("-DFLAG=3", ""),
        ("--bogus", "unrecognized option --bogus"),
        (
            "--pre-include=flag.cuh",
            "tripled.cu(1): error: the flag --pre-include=flag.cuh reads a header before the file",
        ),
        ("-Ielsewhere", ""),
    ):
        if flag.startswith("-I"):
            (tmp_path / "tripled.cu").write_text(f"#include <flag.cuh>\n{(tmp_path / 'tripled.cu').read_text()}")
        kernel = replace(definition.kernels["cuda"], flags=(flag,))
        flagged = replace(definition, kernels={"cuda": kernel})
        plan = _kernels_plan(flagged)
        folder = tmp_path / flag
        folder.mkdir()
        output = run_steps(plan, folder, jobs=2)
        assert (output is None) is (words == "")
        assert words in (output or "")
    # What is read from such a folder is known.
    assert "elsewhere/flag.cuh" in (folder / "tripled.nvrtc.json.d").read_text()


def test_edits_of_what_a_kernel_includes(defined: Callable[[str], Definition], tmp_path: Path) -> None:
    group = _group(defined(_KERNEL))
    store = Store(tmp_path / "store")

    def build() -> str:
        made = prepare(group, ("cuda",), archs="8.0;9.0+PTX", strict=True)
        artifact = obtain_artifact(made.plan, made.toolchain, made.target, store)
        assert artifact.manifest.archs == ("8.0", "9.0+PTX")
        assert artifact.manifest.toolchain["nvrtc"].startswith("NVRTC ")
        assert "cuda" not in artifact.manifest.toolchain
        return artifact.manifest.sha256

    first = build()
    (tmp_path / "unrelated.cuh").write_text("changed\n")
    assert build() == first
    (tmp_path / "deeper" / "factor.cuh").write_text("#define FACTOR 5\n")
    assert build() != first
    (tmp_path / "deeper" / "factor.cuh").write_text("#define FACTOR 3\n")
    assert build() == first


def test_a_note_of_an_earlier_process_is_for_the_same_nvrtc(
    defined: Callable[[str], Definition], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, store = defined(_KERNEL), Store(tmp_path / "store")
    made = prepare(_group(definition), ("cuda",), archs="9.0", strict=True)
    artifact = obtain_artifact(made.plan, made.toolchain, made.target, store)
    note_shortcut(store, "module", [definition], ["cuda"], artifact, made.plan.roots)
    found = find_by_shortcut(store, "module", [definition], ["cuda"])
    assert found is not None
    assert found.manifest.sha256 == artifact.manifest.sha256
    monkeypatch.setattr(nvrtc, "_choose", lambda fit: tmp_path / "libnvrtc.so.14")
    assert find_by_shortcut(store, "module", [definition], ["cuda"]) is None


def test_a_library_is_the_same_from_every_folder(defined: Callable[[str], Definition], tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "another"):
        definition = defined(_KERNEL)
        folder = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-{name}")))
        kernel = replace(definition.kernels["cuda"], sources=(folder / "tripled.cu",))
        moved = replace(definition, kernels={"cuda": kernel}, file=folder / "module.py")
        plan = _kernels_plan(moved)
        assert run_steps(plan, folder, jobs=2) is None
        digests.add((folder / "tripled.nvrtc.json.o").read_bytes())
    assert len(digests) == 1


def test_architectures_that_nvrtc_does_not_compile_for(defined: Callable[[str], Definition]) -> None:
    with pytest.raises(
        ToolchainError, match=r"CUDA architecture 40\.0 is requested, but this NVRTC only compiles for \d"
    ):
        prepare(_group(defined(_KERNEL)), ("cuda",), archs="40.0", strict=True)
    refused_for = "this build is for CUDA's" if torch.version.cuda else r"has opsmith\.kernel kernels, and those are"
    with pytest.raises(ToolchainError, match=refused_for):
        prepare(_group(defined(_KERNEL)), ("cuda",), archs="gfx90a", strict=True)
