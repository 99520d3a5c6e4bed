"""Every GPU kernel of opsmith.ops compiles with nvcc (9.0a, 8.0) and, from the same file, with hipcc (gfx90a), and links."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from operator_cases import MODULES

from compilers import find_compiler, run
from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan, write_files
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.spec.definition import Definition, Group
from opsmith.toolchain import Toolchain, find_toolchain, parse_rocm_archs
from opsmith.toolchain.archs import CudaArch

pytestmark = [pytest.mark.compile, pytest.mark.slow("every operator with nvcc and with hipcc")]

# 9.0a is what is built on a machine with such a GPU: kernels may have instructions of exactly this capability. nvcc ends
# with PTX here, of which `assemble_kernels` makes machine code.
NVCC = Target(cuda_archs=(CudaArch(9, 0, "a", sass=False, ptx=True),))
AMPERE = Target(cuda_archs=(CudaArch(8, 0, sass=False, ptx=True),))
HIPCC = Target(rocm_archs=parse_rocm_archs("gfx90a"))
# Optimizing takes both as long as all the rest and finds no further errors. `make gpu-test` builds as users do. AMD's
# device libraries have no machine code at -O0: they rely on the removal of what is for other GPUs.
NVCC_FLAGS = "-Xcicc -O1 --keep"
# ptxas 13.0 crashes where warpgroups share out registers (setmaxnreg) in code that has not been optimized so far.
OPTIMIZED = {"opsmith.ops.deform_conv2d": "-Xcicc -O2 --keep"}
HIPCC_FLAGS = "-O1"
# What the compiler's front end finds, up to intrinsics that the GPU lacks: all but the selection of instructions.
FRONT_END = ("--cuda-device-only", "-emit-llvm", "-Xclang", "-disable-llvm-passes")
# The element types in a kernel's name, as c++filt writes it. The largest comes first: it takes most registers.
TYPES = ("double", "float", "opsmith::float16", "opsmith::bfloat16", "__half", "__nv_bfloat16")


@pytest.mark.parametrize(
    "in_all_types",
    [False, pytest.param(True, marks=pytest.mark.nightly("in all types; hipcc's front end sees them for each change"))],
)
@pytest.mark.parametrize("module", MODULES)
def test_gpu_kernels_compile_and_link_with_nvcc(module, in_all_types, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", OPTIMIZED.get(module, NVCC_FLAGS))
    toolchain = toolchain_with("cuda")
    for group in discover(module):
        definitions = group.definitions if in_all_types else tuple(map(in_one_type, group.definitions))
        made = build(group, definitions, toolchain, NVCC, tmp_path)
        assemble_kernels(made, toolchain)


@pytest.mark.parametrize(
    "module",
    [
        module
        if module.endswith(".mlp")
        else pytest.param(module, marks=pytest.mark.nightly("what lacks instructions of 9.0 differs in a few kernels"))
        for module in MODULES
    ],
)
def test_gpu_kernels_compile_for_ampere(module, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Xcicc -O1")
    toolchain = toolchain_with("cuda")
    for group in discover(module):
        build(group, group.definitions, toolchain, AMPERE, tmp_path)


@pytest.mark.parametrize("module", MODULES)
def test_gpu_kernels_pass_hipccs_front_end(module, tmp_path: Path, monkeypatch):
    toolchain = toolchain_for_amd(monkeypatch)
    for group in discover(module):
        run_front_end(group, toolchain, tmp_path)


@pytest.mark.parametrize(
    "module",
    [
        module
        if module.endswith(".roi_pool")
        else pytest.param(module, marks=pytest.mark.nightly("AMD machine code; its front end sees all for each change"))
        for module in MODULES
    ],
)
def test_gpu_kernels_compile_and_link_with_hipcc(module, tmp_path: Path, monkeypatch):
    toolchain = toolchain_for_amd(monkeypatch)
    for group in discover(module):
        # LLVM takes minutes for the machine code of all types, which differ in the front end's part of the work.
        definitions = tuple(in_one_type(definition) for definition in group.definitions)
        build(group, definitions, toolchain, HIPCC, tmp_path)


def toolchain_for_amd(monkeypatch) -> Toolchain:
    # Debian's hipcc compiles for NVIDIA where it finds an nvcc, unless it is told.
    monkeypatch.setenv("HIP_PLATFORM", "amd")
    monkeypatch.setenv("HIPCC_COMPILE_FLAGS_APPEND", HIPCC_FLAGS)
    return toolchain_with("rocm")


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
) -> Path:
    """Build the GPU's part alone, and return the folder: the CPU's is what the other tests of this folder build."""
    extension = assemble(group.module, definitions, ("cuda",))
    assert extension.needs_gpu_compiler
    made = folder / group.module
    made.mkdir()
    # A link without its kernels would be small; the symbols of every operator's GPU code must be in the library.
    data = run_plan(plan_extension(extension, toolchain, target), made).read_bytes()
    for definition in definitions:
        if is_view_kernel(definition):
            assert f"{definition.name}__cuda__float32".encode() in data
    return made


def assemble_kernels(made: Path, toolchain: Toolchain) -> None:
    """Run ptxas on all that nvcc kept. It checks every instruction, and makes machine code of each kernel in one type."""
    assert toolchain.cuda is not None
    kept = sorted(made.glob("*.ptx"))
    assert kept
    for ptx in kept:
        names = one_type_each(re.findall(r"\.entry (\w+)", ptx.read_text()))
        chosen = [word for name in names for word in ("--entry", name)]
        run(toolchain.cuda.root / "bin" / "ptxas", "-O0", "-arch=sm_90a", *chosen, ptx, "-o", ptx.with_suffix(".cubin"))


def one_type_each(names: list[str]) -> list[str]:
    """Return the names of kernels that differ in more than their element types."""
    readable = run(find_compiler("c++filt"), *names).stdout.splitlines() if names else []
    kernels: dict[str, tuple[int, str]] = {}
    for name, text in zip(names, readable, strict=True):
        rank = min((at for at, kind in enumerate(TYPES) if re.search(rf"\b{kind}\b", text)), default=0)
        kernel = re.sub(rf"\b({'|'.join(TYPES)})\b", "T", text)
        kernels[kernel] = min(kernels.get(kernel, (rank, name)), (rank, name))
    return [name for _, name in kernels.values()]


def run_front_end(group: Group, toolchain: Toolchain, folder: Path) -> None:
    """Compile the GPU's part in all types to LLVM's intermediate representation."""
    plan = plan_extension(assemble(group.module, group.definitions, ("cuda",)), toolchain, HIPCC)
    made = folder / f"{group.module} in all types"
    made.mkdir()
    write_files(plan, made)
    steps = [step for step in plan.steps if step.output.removesuffix(".o").endswith(".cu")]
    assert steps
    for step in steps:
        run(*step.argv, *FRONT_END, cwd=made)
