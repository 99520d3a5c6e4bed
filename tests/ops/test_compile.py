"""Every GPU kernel of opsmith.ops compiles with nvcc (sm_90a) and, from the same file, with hipcc (gfx90a), and links."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_cases import MODULES

from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import Toolchain, find_toolchain, parse_cuda_archs, parse_rocm_archs

pytestmark = [pytest.mark.compile, pytest.mark.slow("every operator with nvcc and with hipcc")]

# 9.0a is what is built on a machine with such a GPU: kernels may have instructions of exactly this capability.
TARGETS = {
    "nvcc": Target(cuda_archs=parse_cuda_archs("9.0a")),
    "hipcc": Target(rocm_archs=parse_rocm_archs("gfx90a")),
}
# Optimizing takes nvcc as long as all the rest and finds no further errors. `make gpu-test` builds as users do.
HARDLY_OPTIMIZED = "-Xcicc -O1 -Xptxas -O0"


def toolchain(compiler: str, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    # Debian's hipcc compiles for NVIDIA where it finds an nvcc, unless it is told.
    monkeypatch.setenv("HIP_PLATFORM", "amd")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", HARDLY_OPTIMIZED)
    try:
        return find_toolchain(cuda=compiler == "nvcc", rocm=compiler == "hipcc")
    except ToolchainError as error:
        pytest.skip(f"no {compiler} here: {error}")


@pytest.mark.parametrize("compiler", list(TARGETS))
@pytest.mark.parametrize("module", MODULES)
def test_gpu_kernels_compile_and_link(module, compiler, tmp_path: Path, monkeypatch):
    found = toolchain(compiler, monkeypatch)
    for group in discover(module):
        # The GPU's part alone: the CPU's is what the other tests of this folder build.
        extension = assemble(group.module, group.definitions, ("cuda",))
        assert extension.needs_gpu_compiler
        folder = tmp_path / group.module
        folder.mkdir()
        library = run_plan(plan_extension(extension, found, TARGETS[compiler]), folder)
        # A link without its kernels would be small; the symbols of every operator's GPU code must be in the library.
        data = library.read_bytes()
        for definition in group.definitions:
            if "cuda" in definition.kernels and definition.kernels["cuda"].style == "view":
                assert f"{definition.name}__cuda__float32".encode() in data
