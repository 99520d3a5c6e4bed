"""Every GPU kernel of opsmith.ops compiles with nvcc (sm_90a) and, from the same file, with hipcc (gfx90a), and links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from operator_cases import MODULES

from compilers import run
from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan, write_files
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.spec.definition import Definition, Group
from opsmith.toolchain import Toolchain, find_toolchain, parse_cuda_archs, parse_rocm_archs

pytestmark = [pytest.mark.compile, pytest.mark.slow("every operator with nvcc and with hipcc")]

# 9.0a is what is built on a machine with such a GPU: kernels may have instructions of exactly this capability.
NVCC = Target(cuda_archs=parse_cuda_archs("9.0a"))
HIPCC = Target(rocm_archs=parse_rocm_archs("gfx90a"))
# Optimizing takes both as long as all the rest and finds no further errors. `make gpu-test` builds as users do. AMD's
# device libraries have no machine code at -O0: they rely on the removal of what is for other GPUs.
NVCC_FLAGS = "-Xcicc -O1 -Xptxas -O0"
HIPCC_FLAGS = "-O1"
# What the compiler's front end finds, up to intrinsics that the GPU lacks: all but the selection of instructions.
FRONT_END = ("--cuda-device-only", "-emit-llvm", "-Xclang", "-disable-llvm-passes")


@pytest.mark.parametrize("module", MODULES)
def test_gpu_kernels_compile_and_link_with_nvcc(module, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", NVCC_FLAGS)
    toolchain = toolchain_with("cuda")
    for group in discover(module):
        build(group, group.definitions, toolchain, NVCC, tmp_path)


@pytest.mark.parametrize("module", MODULES)
def test_gpu_kernels_compile_and_link_with_hipcc(module, tmp_path: Path, monkeypatch):
    # Debian's hipcc compiles for NVIDIA where it finds an nvcc, unless it is told.
    monkeypatch.setenv("HIP_PLATFORM", "amd")
    monkeypatch.setenv("HIPCC_COMPILE_FLAGS_APPEND", HIPCC_FLAGS)
    toolchain = toolchain_with("rocm")
    for group in discover(module):
        # LLVM takes minutes for the machine code of all types, which differ in the front end's part of the work.
        definitions = tuple(in_one_type(definition) for definition in group.definitions)
        build(group, definitions, toolchain, HIPCC, tmp_path)
        if definitions != group.definitions:
            run_front_end(group, toolchain, tmp_path)


def toolchain_with(gpu: str) -> Toolchain:
    try:
        return find_toolchain(cuda=gpu == "cuda", rocm=gpu == "rocm")
    except ToolchainError as error:
        pytest.skip(f"no compiler for {gpu} here: {error}")


def in_one_type(definition: Definition) -> Definition:
    if not is_view_kernel(definition):  # a native kernel has its types in its own code
        return definition
    allowed = definition.signature.dtypes
    dtypes = {letter: ("float32",) if "float32" in names else names for letter, names in allowed.items()}
    return replace(definition, signature=replace(definition.signature, dtypes=dtypes))


def is_view_kernel(definition: Definition) -> bool:
    return "cuda" in definition.kernels and definition.kernels["cuda"].style == "view"


def build(
    group: Group, definitions: tuple[Definition, ...], toolchain: Toolchain, target: Target, folder: Path
) -> None:
    """Build the GPU's part alone: the CPU's is what the other tests of this folder build."""
    extension = assemble(group.module, definitions, ("cuda",))
    assert extension.needs_gpu_compiler
    made = folder / group.module
    made.mkdir()
    # A link without its kernels would be small; the symbols of every operator's GPU code must be in the library.
    data = run_plan(plan_extension(extension, toolchain, target), made).read_bytes()
    for definition in definitions:
        if is_view_kernel(definition):
            assert f"{definition.name}__cuda__float32".encode() in data


def run_front_end(group: Group, toolchain: Toolchain, folder: Path) -> None:
    """Compile the GPU's part in all types to LLVM's intermediate representation."""
    plan = plan_extension(assemble(group.module, group.definitions, ("cuda",)), toolchain, HIPCC)
    made = folder / f"{group.module} in all types"
    made.mkdir()
    write_files(plan, made)
    steps = [step for step in plan.steps if step.output.endswith(".cu.o")]
    assert steps
    for step in steps:
        run(*step.argv, *FRONT_END, cwd=made)
