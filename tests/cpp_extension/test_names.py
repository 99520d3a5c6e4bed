"""Every name of torch.utils.cpp_extension is there, cheaply, and an assignment to one takes effect."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from opsmith import cpp_extension
from opsmith.cpp_extension.original import torch_module
from opsmith.toolchain.oldest import OLDEST_HOST

# What well-known projects and torch's own code import beside the public names.
PRIVATE = [
    "CLIB_EXT", "CLIB_PREFIX", "COMMON_HIPCC_FLAGS", "COMMON_HIP_FLAGS", "COMMON_MSVC_FLAGS", "COMMON_NVCC_FLAGS",
    "CUDA_HOME", "CUDNN_HOME", "HIP_HOME", "IS_HIP_EXTENSION", "IS_MACOS", "IS_WINDOWS", "JIT_EXTENSION_VERSIONER",
    "LIB_EXT",
    "ROCM_HOME", "ROCM_VERSION", "SHARED_FLAG", "SUBPROCESS_DECODE_ARGS", "SYCL_HOME", "TORCH_LIB_PATH", "_TORCH_PATH",
    "_check_cuda_version", "_find_cuda_home", "_find_rocm_home", "_find_sycl_home", "_get_build_directory",
    "_get_cuda_arch_flags", "_get_num_workers", "_get_pybind11_abi_build_flags", "_get_rocm_arch_flags", "_get_vc_env",
    "_import_module_from_library", "_is_binary_build", "_is_cuda_file", "_jit_compile", "_join_cuda_home", "_join_rocm_home",
    "_join_sycl_home", "_prepare_ldflags", "_run_ninja_build", "_write_ninja_file", "_write_ninja_file_and_build_library",
    "_write_ninja_file_and_compile_objects", "_write_ninja_file_to_build_library", "min_supported_cpython",
]  # fmt: skip


@pytest.fixture(scope="module")
def torchs() -> ModuleType:
    return torch_module()


def test_public_names_are_torchs(torchs: ModuleType) -> None:
    assert sorted(cpp_extension.__all__) == sorted(torchs.__all__)
    for name in cpp_extension.__all__:
        assert getattr(cpp_extension, name) is not getattr(torchs, name)


def test_the_oldest_compilers_are_those_that_builds_accept() -> None:
    oldest = {kind: (major, 0, 0) for kind, major in OLDEST_HOST.items()}
    assert oldest == {"gcc": cpp_extension.MINIMUM_GCC_VERSION, "clang": cpp_extension.MINIMUM_CLANG_VERSION}


@pytest.mark.parametrize("name", PRIVATE)
def test_private_name_that_others_import_is_there(name: str, torchs: ModuleType) -> None:
    assert hasattr(torchs, name)
    assert hasattr(cpp_extension, name)


@pytest.mark.parametrize(
    "name",
    [
        "load", "load_inline", "include_paths", "library_paths", "_jit_compile", "CppExtension", "CUDAExtension",
        "SyclExtension", "get_cxx_compiler", "check_compiler_is_gcc", "check_compiler_ok_for_platform",
        "get_compiler_abi_compatibility_and_version", "is_ninja_available", "_get_cuda_arch_flags", "_check_cuda_version",
        "_import_module_from_library", "_get_build_directory", "_get_rocm_arch_flags",
    ],
)  # fmt: skip
def test_arguments_have_torchs_names_order_and_defaults(name: str, torchs: ModuleType) -> None:
    theirs = inspect.signature(getattr(torchs, name)).parameters.values()
    ours = list(inspect.signature(getattr(cpp_extension, name)).parameters.values())[: len(theirs)]
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]
    for own, other in zip(ours, theirs, strict=True):
        # Ours may have a default where PyTorch's has none.
        assert own.default == other.default or other.default is inspect.Parameter.empty


def test_constants_are_torchs(torchs: ModuleType) -> None:
    names = ["COMMON_NVCC_FLAGS", "COMMON_HIPCC_FLAGS", "COMMON_HIP_FLAGS", "LIB_EXT", "IS_WINDOWS", "TORCH_LIB_PATH"]
    for name in [*names, "_TORCH_PATH", "min_supported_cpython", "SHARED_FLAG", "IS_HIP_EXTENSION"]:
        assert getattr(cpp_extension, name) == getattr(torchs, name), name


def test_an_unknown_name_raises() -> None:
    with pytest.raises(
        AttributeError, match=r"neither opsmith\.cpp_extension nor torch\.utils\.cpp_extension.*'nothing'"
    ):
        cpp_extension.nothing  # noqa: B018
    assert not hasattr(cpp_extension, "__wrapped__")
    assert "load" in dir(cpp_extension)


def test_import_needs_neither_setuptools_nor_torch_and_load_no_setuptools() -> None:
    """#26: setuptools is imported by torch.utils.cpp_extension even for load."""
    code = """
import sys
import opsmith.cpp_extension as c
print("setuptools" in sys.modules, "torch" in sys.modules)
c.load, c.load_inline, c.include_paths(), c.JIT_EXTENSION_VERSIONER
print("setuptools" in sys.modules)
"""
    env = {"PYTHONPATH": str(Path(cpp_extension.__file__).parents[2]), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


@pytest.mark.slow("processes that import torch")
def test_drop_in_may_stand_in_torchs_place() -> None:
    """Names that opsmith lacks come from PyTorch's file all the same, without going round in circles."""
    code = """
import sys
import opsmith.cpp_extension as ours
import torch.utils
sys.modules["torch.utils.cpp_extension"] = ours
torch.utils.cpp_extension = ours
from torch.utils.cpp_extension import load, COMMON_NVCC_FLAGS, PLAT_TO_VCVARS, _write_ninja_file
from torch.utils import cpp_extension
assert cpp_extension is ours and load is ours.load
try:
    cpp_extension.nothing
except AttributeError as error:
    print(error)
"""
    env = {"PYTHONPATH": str(Path(cpp_extension.__file__).parents[2]), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert "has an attribute 'nothing'" in done.stdout, done.stderr
