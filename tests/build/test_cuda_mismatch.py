"""An nvcc of another CUDA major version than torch's is refused before anything is built, by every way to build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build import target
from opsmith.errors import ToolchainError
from opsmith.toolchain import CudaCompiler, HostCompiler, Toolchain, find_torch

HOST = HostCompiler(Path("/bin/g++"), "gcc", "12.2.0", "x86_64-linux-gnu", "gcc version 12.2.0")
NVCC = CudaCompiler(
    Path("/cuda/bin/nvcc"), Path("/cuda"), "13.0.88", "b", Path("/cuda/include"), HOST, ("9.0",), Path("/cudart.a")
)
REFUSAL = r"built for CUDA 12\.8, but nvcc is 13\.0\.88.*`conda install -c nvidia cuda-nvcc=12\.8"

OPERATOR = """
from jaxtyping import Float
from torch import Tensor
import opsmith

@opsmith.op(cuda="same.cu")
def same(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x.clone()
"""


@pytest.fixture
def torch_cuda(monkeypatch):
    """Return a function that says which CUDA torch is built for; nvcc is 13.0."""

    def do(version: str, nvcc: CudaCompiler = NVCC) -> None:
        monkeypatch.delenv("OPSMITH_SKIP_CUDA_CHECK", raising=False)
        torch = replace(find_torch(), cuda=version, hip=None)
        monkeypatch.setattr("opsmith.toolchain.find_torch", lambda: torch)
        monkeypatch.setattr(target, "find_toolchain", lambda **_: Toolchain(HOST, torch, nvcc))

    return do


def test_another_major_version_is_refused(torch_cuda):
    torch_cuda("12.8")
    with pytest.raises(ToolchainError, match=REFUSAL):
        target.choose_toolchain(gpu=True)


def test_another_minor_version_is_taken(torch_cuda):
    torch_cuda("13.2")
    assert target.choose_toolchain(gpu=True).cuda == NVCC


def test_a_release_that_is_asked_for_need_not_be_torch_s(torch_cuda):
    """The runtime is inside the library, which then is tied to no torch's."""
    torch_cuda("12.8")
    assert target.choose_toolchain(gpu=True, cuda="13").cuda == NVCC


def test_but_its_runtime_has_to_be_static(torch_cuda):
    torch_cuda("12.8", replace(NVCC, cudart=Path("/cuda/lib64/libcudart.so")))
    with pytest.raises(ToolchainError, match=r"no libcudart_static\.a, and with the shared .* torch for CUDA 13 alone"):
        target.choose_toolchain(gpu=True, cuda="13")


def test_the_user_may_insist(torch_cuda, monkeypatch):
    torch_cuda("12.8")
    monkeypatch.setenv("OPSMITH_SKIP_CUDA_CHECK", "1")
    assert target.choose_toolchain(gpu=True).cuda == NVCC


def test_existing_sources_are_refused(torch_cuda, tmp_path):
    """By `load` and `load_inline`, by ExistingExtension, and by CMake: all plan by this function."""
    from opsmith.build.existing import assemble_sources, file_sources, prepare_existing

    torch_cuda("12.8")
    kernel = tmp_path / "k.cu"
    kernel.write_text("__global__ void k() {}\n")
    extension = assemble_sources("k", file_sources([kernel]), library="k.so")
    with pytest.raises(ToolchainError, match=REFUSAL):
        prepare_existing(extension)


@pytest.mark.parametrize("builder", ["jit", "setuptools", "cmake"])
def test_definitions_are_refused(torch_cuda, tmp_path, monkeypatch, builder):
    from opsmith.build.builders import Request, build_group
    from opsmith.build.discover import discover

    torch_cuda("12.8")
    module = f"mismatched_{builder}"
    package = tmp_path / module
    package.mkdir()
    (package / "__init__.py").write_text(OPERATOR)
    (package / "same.cu").write_text("// never compiled\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (group,) = discover(module)
    with pytest.raises(ToolchainError, match=REFUSAL):
        build_group(group, builder, Request(("cuda",)))
