"""CuTe DSL's kernels: errors at their lines, what a library is made of, and what it is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.build.ahead.archs import cute_archs
from opsmith.build.artifact import obtain_artifact
from opsmith.build.diagnose import explain_failure
from opsmith.build.ninja import run_steps
from opsmith.build.plan import Plan
from opsmith.build.prepare import prepare
from opsmith.errors import ToolchainError
from opsmith.package.audit import audit
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition, Group
from opsmith.store import Store
from opsmith.toolchain.archs import parse_cuda_archs

sys.path.append(str(Path(__file__).parent))

from cute_here import needs_cute

_KERNEL = """
import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute
from helpers_of_cute import FACTOR, scaled


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    y[thread] = scaled(x[thread])


@cute.jit
def tripled(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    kernel(x, y).launch(grid=[1, 1, 1], block=[FACTOR * 32, 1, 1], stream=stream)
"""
_HELPERS = """
FACTOR = 3


def scaled(value):
    return value * FACTOR
"""


def tripled(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 3 * x


@pytest.fixture
def defined(tmp_path: Path) -> Callable[..., Definition]:
    def declare(text: str, folder: str = ".") -> Definition:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "kernel.py").write_text(text)
        (place / "helpers_of_cute.py").write_text(_HELPERS)
        options = OpOptions(
            cuda=opsmith.cute(str(place / "kernel.py:tripled")),
            namespace="cute",
            outputs="y",
            dtypes=(torch.float32,),
        )
        return define(tripled, options)

    return declare


def _group(definition: Definition) -> Group:
    return Group(definition.module, definition.file, (definition,))


def _error(definition: Definition, folder: Path) -> str:
    plan: Plan = prepare(_group(definition), ("cuda",), archs="9.0", strict=True).plan
    (step,) = (step for step in plan.steps if step.output == "tripled.cute.json.o")
    (folder / "build").mkdir()
    plan = replace(plan, steps=(step,), library=step.output)
    output = run_steps(plan, folder / "build", jobs=1)
    assert output is not None
    return str(explain_failure(plan, output))


@needs_cute
@pytest.mark.compile
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scaled(x[thread])", "missing(x[thread])", "kernel.py:11: NameError in `tripled`: "),
        (
            "    y[thread]",
            "    if x[thread] > 0:\n        return\n    y[thread]",
            "kernel.py:12:9: Early exit (return) is not allowed",
        ),
        ("scaled(x[thread])", "x[thread].to(cutlass.Float64)", "kernel.py:11: ValueError: Type mismatch"),
        ("FACTOR, scaled", "nothing_of_mine", "kernel.py:5: ImportError: cannot import name 'nothing_of_mine'"),
        ("    thread, _", "    raise TypeError('of mine')\n    thread, _", "kernel.py:10: TypeError: of mine"),
    ],
)
def test_errors_are_told_at_the_kernel_s_line(
    defined: Callable[..., Definition], tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert f"{tmp_path}/{words}" in _error(defined(_KERNEL.replace(old, new)), tmp_path)


@needs_cute
@pytest.mark.compile
def test_an_error_in_what_a_kernel_calls(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(_KERNEL)
    (tmp_path / "helpers_of_cute.py").write_text(_HELPERS.replace("value * FACTOR", "value + None"))
    text = _error(definition, tmp_path)
    assert f"{tmp_path}/helpers_of_cute.py:6: " in text
    assert f"{tmp_path}/kernel.py:11" in text


@needs_cute
@pytest.mark.compile
def test_edits_of_what_a_kernel_uses(defined: Callable[..., Definition], tmp_path: Path) -> None:
    group = _group(defined(_KERNEL))
    store = Store(tmp_path / "store")

    def build() -> str:
        made = prepare(group, ("cuda",), archs="9.0+PTX", strict=True)
        artifact = obtain_artifact(made.plan, made.toolchain, made.target, store)
        assert artifact.manifest.archs == ("9.0a",)
        assert artifact.manifest.toolchain["cute"].startswith("CuTe DSL ")
        assert "cuda" not in artifact.manifest.toolchain
        report = audit(artifact.library)
        assert report.is_sound
        return artifact.manifest.sha256

    first = build()
    (tmp_path / "unrelated.py").write_text("changed = True\n")
    assert build() == first
    (tmp_path / "helpers_of_cute.py").write_text(_HELPERS.replace("3", "5"))
    assert build() != first
    (tmp_path / "helpers_of_cute.py").write_text(_HELPERS)
    assert build() == first


@needs_cute
@pytest.mark.compile
def test_a_library_is_the_same_from_every_folder_and_whatever_the_settings(
    defined: Callable[..., Definition], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for name, setting in (("one", "0"), ("another", "1")):
        monkeypatch.setenv("CUTE_DSL_LINEINFO", setting)
        monkeypatch.setenv("CUTE_DSL_ARCH", "sm_80")
        made = prepare(_group(defined(_KERNEL, name)), ("cuda",), archs="9.0", strict=True)
        artifact = obtain_artifact(made.plan, made.toolchain, made.target, Store(tmp_path / f"store {name}"))
        digests.add(artifact.manifest.sha256)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("asked", "made"),
    [("8.0;9.0+PTX", "8.0 9.0a"), ("9.0;9.0a", "9.0a"), ("10.0f;12.0", "10.0f 12.0a"), ("8.6+PTX", "8.6")],
)
def test_machine_code_is_made_for_the_architectures_asked_for(asked: str, made: str) -> None:
    assert " ".join(map(str, cute_archs(parse_cuda_archs(asked)))) == made


def test_architectures_that_are_too_old() -> None:
    with pytest.raises(ToolchainError, match=r"CUDA architecture 7\.5 is requested, but CuTe DSL compiles for 8\.0"):
        cute_archs(parse_cuda_archs("7.5;8.0"))
