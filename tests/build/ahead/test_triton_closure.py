"""A Triton kernel is compiled again when anything that it uses has changed, and found in the store otherwise."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.build.ahead.archs import triton_archs
from opsmith.build.artifact import obtain_artifact
from opsmith.build.prepare import prepare
from opsmith.errors import ToolchainError
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Group
from opsmith.store import Store
from opsmith.toolchain.archs import parse_cuda_archs


def tripled(x: Float[Tensor, "1024"]) -> Float[Tensor, "1024"]:
    return 3 * x


@pytest.mark.compile
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_edits_of_what_a_kernel_uses(tmp_path: Path) -> None:
    (tmp_path / "numbers_of_mine.py").write_text("import triton.language as tl\nFACTOR = tl.constexpr(3)\n")
    (tmp_path / "helpers_of_mine.py").write_text(
        "import triton\n\n\n@triton.jit\ndef scaled(x, factor):\n    return x * factor\n"
    )
    (tmp_path / "kernel.py").write_text(
        "import triton\nimport triton.language as tl\n"
        "from helpers_of_mine import scaled\nfrom numbers_of_mine import FACTOR\n"
        "\n\n@triton.jit\ndef kernel(x, y):\n    at = tl.arange(0, 1024)\n"
        "    tl.store(y + at, scaled(tl.load(x + at), FACTOR))\n"
    )
    (tmp_path / "unrelated.py").write_text("\n")
    launch = opsmith.triton(str(tmp_path / "kernel.py:kernel"), grid=1)
    definition = define(tripled, OpOptions(cuda=launch, namespace="closure", outputs="y", dtypes=(torch.float32,)))
    group = Group(definition.module, definition.file, (definition,))
    store = Store(tmp_path / "store")

    def build() -> str:
        made = prepare(group, ("cuda",), archs="9.0", strict=True)
        artifact = obtain_artifact(made.plan, made.toolchain, made.target, store)
        assert artifact.manifest.archs == ("9.0a",)
        assert artifact.manifest.toolchain["triton"].startswith("Triton ")
        return artifact.manifest.sha256

    first = build()
    (tmp_path / "unrelated.py").write_text("changed = True\n")
    assert build() == first
    (tmp_path / "numbers_of_mine.py").write_text("import triton.language as tl\nFACTOR = tl.constexpr(5)\n")
    second = build()
    assert second != first
    text = (tmp_path / "helpers_of_mine.py").read_text()
    (tmp_path / "helpers_of_mine.py").write_text(text.replace("x * factor", "x * factor + 1"))
    assert build() not in (first, second)
    # What was built before is still there.
    (tmp_path / "helpers_of_mine.py").write_text(text)
    assert build() == second


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ("9.0", "9.0a"),
        ("8.0;9.0+PTX", "8.0+PTX;9.0a"),
        ("8.0;8.6;10.0+PTX", "8.0;8.6+PTX;10.0a"),
        ("9.0+PTX", "9.0a"),
        ("compute_80;9.0a", "compute_80;9.0a"),
    ],
)
def test_triton_s_code_for_hopper_and_newer_is_for_one_architecture(asked: str, made: str) -> None:
    assert triton_archs(parse_cuda_archs(asked)) == parse_cuda_archs(made)


def test_an_architecture_that_triton_does_not_compile_for() -> None:
    with pytest.raises(ToolchainError, match=r"7\.0 is requested, but Triton compiles for 7\.5 and newer"):
        triton_archs(parse_cuda_archs("7.0"))
