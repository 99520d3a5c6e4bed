"""Builds for AMD's GPUs: what asks for hipcc, and the command lines, which no machine without ROCm runs to the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build import target
from opsmith.build.discover import discover
from opsmith.build.plan import Plan, Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import HostCompiler, RocmCompiler, Toolchain, find_torch, parse_rocm_archs

HOST = HostCompiler(Path("/bin/g++"), "gcc", "12.2.0", "x86_64-linux-gnu", "gcc version 12.2.0")
ROCM = RocmCompiler(
    Path("/opt/rocm/bin/hipcc"), Path("/opt/rocm"), "6.3", "AMD clang", "x86_64", Path("/opt/rocm/include")
)


@pytest.fixture
def asked(monkeypatch):
    """Return a function that says which compilers a build asks for, with a torch for a CUDA or a HIP."""

    def do(archs: str | None, *, cuda: str | None = None, hip: str | None = None, release: str | None = None) -> str:
        torch = replace(find_torch(), cuda=cuda, hip=hip)
        wanted: list[str] = []

        def find(*, cuda: bool, rocm: bool, ahead: object, cuda_release: str | None = None) -> Toolchain:
            wanted.extend(name for name, is_wanted in (("cuda", cuda), ("rocm", rocm)) if is_wanted)
            return Toolchain(HOST, torch, None, ROCM)

        monkeypatch.setattr("opsmith.toolchain.find_torch", lambda: torch)
        monkeypatch.setattr(target, "find_toolchain", find)
        target.choose_toolchain(gpu=True, archs=archs, cuda=release)
        return " ".join(wanted)

    return do


def plan_for(*archs: str, devices: tuple[str, ...] = ("cpu", "cuda")) -> Plan:
    (group,) = discover("opsmith.ops.add2")
    extension = assemble(group.module, group.definitions, devices)
    toolchain = Toolchain(HOST, find_torch(), None, ROCM)
    return plan_extension(extension, toolchain, Target(rocm_archs=parse_rocm_archs(";".join(archs))))


def test_torch_or_the_architectures_ask_for_hipcc(asked):
    assert asked(None, hip="6.3") == "rocm"
    assert asked("gfx90a;gfx942") == "rocm"
    assert asked("9.0") == "cuda"
    assert asked(None) == "cuda"
    assert asked("gfx90a", cuda="13.0") == "cuda"  # where they are refused


def test_a_cuda_cannot_be_asked_for_beside_rocm(asked):
    for archs, hip in (("gfx90a", None), (None, "6.3")):
        with pytest.raises(
            ToolchainError, match="CUDA 12 is asked for, but the architectures or this torch are ROCm's"
        ):
            asked(archs, hip=hip, release="12")


def test_hipcc_compiles_the_same_source_for_each_target():
    steps = {step.output: step.argv for step in plan_for("gfx90a:xnack-", "gfx942").steps}
    (gpu,) = (argv for output, argv in steps.items() if output.endswith(".cu.o"))
    assert gpu[:4] == ("/opt/rocm/bin/hipcc", "-x", "hip", "-O3")
    assert [word for word in gpu if "offload" in word] == ["--offload-arch=gfx90a:xnack-", "--offload-arch=gfx942"]
    assert {"-fPIC", "-fvisibility=hidden"} <= set(gpu)
    others = [argv for output, argv in steps.items() if not output.endswith(".cu.o")]
    assert all(argv[0] == "/bin/g++" for argv in others)


def test_the_link_line_has_hip_s_runtime_and_nothing_of_cuda():
    link = plan_for("gfx90a").steps[-1].argv
    torch = find_torch().lib_dir
    end = link[link.index("-Wl,--no-undefined") :]
    assert end == (
        *("-Wl,--no-undefined", "-Wl,--exclude-libs,ALL", f"-L{torch}", "-ltorch_cpu", "-lc10"),
        *("-L/opt/rocm/lib", "-lamdhip64", "-ldl", "-o", plan_for("gfx90a").library),
    )
    assert "-lamdhip64" not in plan_for("gfx90a", devices=("cpu",)).steps[-1].argv
