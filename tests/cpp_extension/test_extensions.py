"""CppExtension, CUDAExtension, SyclExtension and plain extensions: what a setup.py may do with them, and their plans."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import setuptools
import torch

from opsmith import cpp_extension
from opsmith.cpp_extension import BuildExtension, CppExtension, CUDAExtension, SyclExtension
from opsmith.cpp_extension.translate import is_ours, needs_gpu
from opsmith.errors import ArgumentError, ArgumentTypeError, ToolchainError

needs_nvcc = pytest.mark.skipif(
    cpp_extension._find_cuda_home() is None, reason="needs nvcc; no CUDA toolkit is found here"
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.cpp", "a.cu", "b.cpp", "s.sycl"):
        (tmp_path / name).touch()
    for name in ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CC", "TORCH_CUDA_ARCH_LIST", "OPSMITH_CUDA_ARCHS"):
        monkeypatch.delenv(name, raising=False)
    # With a CPU torch there is no CUDA to build for, unless somebody says so.
    monkeypatch.setitem(vars(cpp_extension), "CUDA_HOME", cpp_extension._find_cuda_home())
    return tmp_path


def words(plan: Any, output: str) -> tuple[str, ...]:
    (step,) = (step for step in plan.steps if step.output == output)
    return step.argv


def test_lists_may_be_read_and_changed_afterwards_and_the_callers_stay_as_they_are(files: Path, plan_of: Any) -> None:
    """#20: PyTorch appends torch's own folders and libraries to the caller's lists."""
    folders, libraries, args = ["include"], ["m"], {"cxx": ["-DA"]}
    ext = CppExtension("p.x", [Path("a.cpp")], include_dirs=folders, libraries=libraries, extra_compile_args=args)
    assert type(ext) is setuptools.Extension
    assert (folders, libraries) == (["include"], ["m"])
    assert ext.include_dirs == ["include", *cpp_extension.include_paths()]
    assert ext.libraries == ["m", "c10", "torch", "torch_cpu", "torch_python"]
    assert (ext.language, ext.sources) == ("c++", ["a.cpp"])
    ext.include_dirs += ["more"]
    ext.extra_compile_args["cxx"].append("-DB")
    ext.libraries.remove("torch_python")
    plan = plan_of(ext)
    compiled, linked = words(plan, "a.cpp.o"), words(plan, "x.so")
    assert {f"-I{files / 'include'}", f"-I{files / 'more'}", "-DA", "-DB", "-DTORCH_EXTENSION_NAME=x"} <= set(compiled)
    assert "-ltorch_python" not in linked
    assert "-lm" in linked


def test_setuptools_arguments_arrive_by_place_and_by_name(files: Path, plan_of: Any) -> None:
    ext = CppExtension(
        "x",
        ["a.cpp"],
        ["include"],
        [("TWO", "2"), ("PLAIN", None)],
        undef_macros=["GONE"],
        library_dirs=["libs"],
        runtime_library_dirs=["$ORIGIN/../lib"],
        extra_objects=["more.o"],
        extra_link_args=["-Wl,--as-needed"],
        depends=["a.h"],
    )
    plan = plan_of(ext)
    assert {"-DTWO=2", "-DPLAIN", "-UGONE"} <= set(words(plan, "a.cpp.o"))
    linked = words(plan, "x.so")
    assert f"-L{files / 'libs'}" in linked
    assert str(files / "more.o") in linked
    # #21: `$ORIGIN` reaches the linker as it is.
    assert "-Wl,-rpath,$ORIGIN/../lib" in linked
    assert linked[-4:-2] == ("-Wl,--as-needed", "-ldl")


def test_options_of_the_command_and_variables_count(files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-DC_FLAG '-DTEXT=a b'")
    monkeypatch.setenv("CXXFLAGS", "-DCXX_FLAG")
    monkeypatch.setenv("LDFLAGS", "-Wl,-z,now")
    plan = plan_of(CppExtension("x", ["a.cpp"]), include_dirs="inc", define="FROM_CFG", libraries="z", debug=1)
    compiled = words(plan, "a.cpp.o")
    assert {f"-I{files / 'inc'}", "-DFROM_CFG=1", "-DC_FLAG", "-DTEXT=a b", "-DCXX_FLAG", "-g"} <= set(compiled)
    assert {"-Wl,-z,now", "-lz"} <= set(words(plan, "x.so"))


def test_limited_api_is_defined_and_needs_no_torch_python(files: Path, plan_of: Any) -> None:
    ext = CppExtension("x", ["a.cpp"], py_limited_api=True)
    assert "torch_python" not in ext.libraries
    plan = plan_of(ext)
    assert "-DPy_LIMITED_API=0x030A0000" in words(plan, "a.cpp.o")
    assert "-ltorch_python" not in words(plan, "x.so")
    assert plan.python_abi == "abi3-0x030A0000"
    command = BuildExtension(setuptools.Distribution({"ext_modules": [ext]}))
    command.ensure_finalized()
    assert command.get_ext_filename("x") == "x.abi3.so"


def test_standard_that_torch_refuses_is_raised_and_others_stay(files: Path, plan_of: Any) -> None:
    def standards(*flags: str) -> list[str]:
        plan = plan_of(CppExtension("x", ["a.cpp"], extra_compile_args=list(flags)))
        return [word for word in words(plan, "a.cpp.o") if word.startswith("-std")]

    assert standards("-std=c++14") == ["-std=c++20"]
    assert standards("-std=c++17") == ["-std=c++20", "-std=c++17"]
    assert standards("-std=gnu++23") == ["-std=c++20", "-std=gnu++23"]


@needs_nvcc
def test_cpp_and_cu_of_one_stem_have_flags_and_objects_of_their_own(
    files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """#9: two rules for one object file in PyTorch's ninja file."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    ext = CUDAExtension("x", ["a.cpp", "a.cu"], extra_compile_args={"cxx": ["-DHOST"], "nvcc": ["-lineinfo"]})
    assert needs_gpu(ext)
    plan = plan_of(ext)
    host, device = words(plan, "a.cpp.o"), words(plan, "a.cu.o")
    assert "-DHOST" in host
    assert "-DHOST" not in device
    assert {"-lineinfo", "-D__CUDA_NO_HALF_OPERATORS__", "-gencode=arch=compute_90,code=sm_90"} <= set(device)
    assert "-lcudart" not in words(plan, "x.so")
    assert any("libcudart" in word for word in words(plan, "x.so"))


@needs_nvcc
def test_list_of_flags_is_for_every_compiler(files: Path, plan_of: Any) -> None:
    plan = plan_of(CUDAExtension("x", ["a.cpp", "a.cu"], extra_compile_args=["-DBOTH"]))
    assert "-DBOTH" in words(plan, "a.cpp.o")
    assert "-DBOTH" in words(plan, "a.cu.o")


@needs_nvcc
def test_flags_that_a_project_removed_from_the_common_ones_are_gone(
    files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [flag for flag in cpp_extension.COMMON_NVCC_FLAGS if "HALF" not in flag]
    monkeypatch.setitem(vars(cpp_extension), "COMMON_NVCC_FLAGS", kept)
    device = words(plan_of(CUDAExtension("x", ["a.cu"])), "a.cu.o")
    assert "-D__CUDA_NO_HALF_OPERATORS__" not in device
    assert "--expt-relaxed-constexpr" in device


@needs_nvcc
def test_users_standard_and_host_compiler_replace_ours_for_nvcc(files: Path, plan_of: Any) -> None:
    args = {"nvcc": ["-std=c++17", "-ccbin", "my-g++"]}
    device = words(plan_of(CUDAExtension("x", ["a.cu"], extra_compile_args=args)), "a.cu.o")
    assert [word for word in device if word.startswith("-std")] == ["-std=c++17"]
    assert device.count("-ccbin") == 1
    assert device[device.index("-ccbin") + 1] == "my-g++"


@needs_nvcc
def test_cc_and_pytorch_nvcc_are_obeyed(files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setenv("PYTORCH_NVCC", "ccache my-nvcc")
    device = words(plan_of(CUDAExtension("x", ["a.cu"])), "a.cu.o")
    assert device[:2] == ("ccache", "my-nvcc")
    assert device[device.index("-ccbin") + 1] == compiler


@needs_nvcc
def test_dlink_is_a_step_between_compiling_and_linking(
    files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    args = {"nvcc": ["-rdc=true"]}
    ext = CUDAExtension("x", ["a.cpp", "a.cu"], dlink_libraries=["dev"], library_dirs=["libs"], extra_compile_args=args)
    assert args == {"nvcc": ["-rdc=true"]}
    plan = plan_of(ext)
    device = words(plan, "dlink.o")
    assert {"-dlink", "-dlto", "-Llibs", "-ldev", "a.cpp.o", "a.cu.o"} <= set(device)
    assert "-gencode=arch=compute_90,code=sm_90" in device
    assert "dlink.o" in words(plan, "x.so")
    assert plan_of(CUDAExtension("x", ["a.cu"])).steps[-2].output == "a.cu.o"


def test_sycl_needs_icpx_and_its_commands_name_host_and_targets(
    files: Path, plan_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(cpp_extension), "SYCL_HOME", str(files))
    ext = SyclExtension("x", ["a.cpp", "s.sycl"], extra_compile_args={"cxx": ["-DHOST"], "sycl": ["-DDEVICE"]})
    assert {"sycl", "c10_xpu", "torch_xpu"} <= set(ext.libraries)
    if shutil.which("icpx") is None:
        with pytest.raises(ToolchainError, match="icpx is not on PATH"):
            plan_of(ext)
    from opsmith.build import existing
    from opsmith.build.sycl import SyclCompiler

    icpx = SyclCompiler(files / "bin" / "icpx", files, (2025, 3, 0))
    monkeypatch.setattr(existing, "find_sycl_compiler", lambda: icpx)
    monkeypatch.setenv("TORCH_XPU_ARCH_LIST", "pvc,xe-lpg")
    plan = plan_of(ext)
    device = words(plan, "s.sycl.o")
    assert device[0] == str(icpx.icpx)
    assert {"-fsycl", "-fsycl-targets=spir64_gen,spir64", "-sycl-std=2020", "-DDEVICE", "-x"} <= set(device)
    (options,) = (word for word in device if word.startswith("-fsycl-host-compiler-options="))
    assert "-DHOST" in options
    assert "-DDEVICE" not in options
    dlink = words(plan, "sycl_dlink.o")
    assert dlink[dlink.index("-Xs") :][:2] == ("-Xs", "-device pvc,xe-lpg")
    assert "sycl_dlink.o" in words(plan, "x.so")
    monkeypatch.setenv("TORCH_XPU_ARCH_LIST", "")
    assert "-fsycl-targets=spir64" in words(plan_of(ext), "s.sycl.o")


def test_plain_extension_is_ours_where_it_uses_torch() -> None:
    assert is_ours(setuptools.Extension("x", ["a.cu"]))
    assert is_ours(setuptools.Extension("x", ["a.cpp"], include_dirs=cpp_extension.include_paths()))
    assert is_ours(setuptools.Extension("x", ["a.cpp"], libraries=["torch"]))
    assert not is_ours(setuptools.Extension("x", ["a.c"], include_dirs=["include"]))


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: CppExtension("x", "a.cpp"), ArgumentTypeError, "sources must be a list"),
        (lambda: CppExtension("x", ["a.cpp"], include_dirs="inc"), ArgumentTypeError, "include_dirs must be a list"),
        (lambda: CppExtension("x", ["a.cpp"], ["i"], include_dirs=["i"]), ArgumentTypeError, "given twice"),
    ],
)
def test_wrong_arguments_are_refused(make: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_unknown_compiler_and_missing_source_are_refused_when_built(files: Path, plan_of: Any) -> None:
    with pytest.raises(ArgumentError, match="'hip'; there is cxx"):
        plan_of(CppExtension("x", ["a.cpp"], extra_compile_args={"hip": []}))
    with pytest.raises(ArgumentError, match=r"no source file .*gone\.cpp"):
        plan_of(CppExtension("x", ["gone.cpp"]))


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
@needs_nvcc
def test_cpu_torch_plans_cuda_for_another_machine(files: Path, plan_of: Any) -> None:
    linked = words(plan_of(CUDAExtension("x", ["a.cu"])), "x.so")
    assert "-lc10_cuda" not in linked  # this torch has none
