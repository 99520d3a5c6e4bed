"""Compilers, architectures and memory: what the machine has is found, judged and used rightly. (#11 to #16, #25, #26)

Further: wheels, conda and missing parts of a toolkit in tests/toolchain/test_cuda_compiler.py, every way to build with a
CUDA that does not fit in tests/build/test_cuda_mismatch.py, how memory bounds the jobs in tests/build/test_jobs.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build import target

from .conftest import MODULE, Tool

VERSION = "Cuda compilation tools, release {0}, V{0}.88\nBuild cuda_{0}.r{0}/compiler.1_0\n"


def put_toolkit(root: Path, release: str = "13.0") -> Path:
    """Make a CUDA toolkit that can say what it is, and return its nvcc."""
    for name in ("include/cuda_runtime.h", "include/crt/host_config.h", "include/nv/target", "bin/nvcc.profile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    answers = {
        "--version": VERSION.format(release),
        "--list-gpu-arch": "compute_75\ncompute_80\ncompute_90\ncompute_100\n",
        "--dryrun": f"#$ _SPACE_= \n#$ _HERE_={root}/bin\n#$ TOP={root}/bin/..\n",
    }
    cases = "".join(f"{option}) printf '%s' '{answer}';;\n" for option, answer in answers.items())
    nvcc = root / "bin" / "nvcc"
    nvcc.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}esac\n')
    nvcc.chmod(0o755)
    for part in ("nvvm/bin/cicc", "lib/libcudart.so.13"):
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (root / part).touch()
    return nvcc


@pytest.mark.torch_fails(by=AssertionError)
def test_11_mismatch_of_cuda_is_a_sentence(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch shows ('The detected CUDA version (%s) ...', '13.0', '12.8'), and in its JIT checks nothing."""
    import torch

    put_toolkit(tmp_path / "cuda")
    monkeypatch.delenv("OPSMITH_SKIP_CUDA_CHECK", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    if tool.name == "torch":
        monkeypatch.setattr(torch.version, "cuda", "12.8")
        monkeypatch.setattr(tool.api, "CUDA_HOME", str(tmp_path / "cuda"))
    else:
        from opsmith import toolchain

        torchs = replace(toolchain.find_torch(), cuda="12.8", hip=None)
        found = toolchain.Toolchain(toolchain.find_host_compiler(), torchs, toolchain.find_cuda_compiler())
        monkeypatch.setattr(toolchain, "find_toolchain", lambda **kinds: found)
    with pytest.raises(RuntimeError) as caught:
        tool.api._check_cuda_version("g++", "12.2.0")
    message = str(caught.value)
    assert "12.8" in message
    assert "13.0" in message
    assert "%s" not in message
    assert "CUDA_HOME" in message


@pytest.mark.ours_alone("PyTorch has no variable for it")
def test_11_minor_versions_go_together_and_the_user_may_insist(monkeypatch: pytest.MonkeyPatch) -> None:
    from opsmith import cpp_extension, toolchain

    def is_refused(version: str) -> bool:
        host = toolchain.find_host_compiler()
        nvcc = toolchain.CudaCompiler(Path("/c/bin/nvcc"), Path("/c"), version, "", Path("/c"), host, (), None)
        found = toolchain.Toolchain(host, replace(toolchain.find_torch(), cuda="12.8", hip=None), nvcc)
        monkeypatch.setattr(toolchain, "find_toolchain", lambda **kinds: found)
        try:
            cpp_extension._check_cuda_version("c++", "12.2.0")
        except RuntimeError:
            return True
        return False

    monkeypatch.delenv("OPSMITH_SKIP_CUDA_CHECK", raising=False)
    assert is_refused("13.0.88")
    assert not is_refused("12.1.0")
    monkeypatch.setenv("OPSMITH_SKIP_CUDA_CHECK", "1")
    assert not is_refused("13.0.88")


@pytest.mark.torch_fails(by=AssertionError)
def test_12_nvcc_behind_a_script_is_seen_through(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch takes the folder of the script for the toolkit, and looks for headers beside it."""
    nvcc = put_toolkit(tmp_path / "cuda")
    script = tmp_path / "usr" / "bin" / "nvcc"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\nexec {nvcc} "$@"\n')
    script.chmod(0o755)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    assert tool.api._find_cuda_home() == str(tmp_path / "cuda")


@pytest.fixture
def no_gpu(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    import torch

    from opsmith.cpp_extension import flags

    for name in ("OPSMITH_CUDA_ARCHS", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(target, "_native_cuda", lambda: ())
    # What nvcc 13 compiles for; 10.1 was the name of 11.0 before.
    supported = ("7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "10.0", "10.1", "10.3", "11.0", "12.0", "12.1")
    monkeypatch.setattr(flags, "_supported", lambda: supported)
    return monkeypatch


@pytest.mark.torch_fails(by=(IndexError, ValueError))
@pytest.mark.parametrize("value", [None, "native", " Native "])
def test_13_build_without_a_gpu_has_a_default(tool: Tool, no_gpu: pytest.MonkeyPatch, value: str | None) -> None:
    """PyTorch raises IndexError: list index out of range."""
    if value is not None:
        no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    flags = tool.api._get_cuda_arch_flags()
    assert "-gencode=arch=compute_90,code=compute_90" in flags  # PTX for what is newer
    assert "-gencode=arch=compute_80,code=sm_80" in flags


HOLDS = pytest.mark.torch_holds


@pytest.mark.torch_fails(by=ValueError)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10.0f", ["-gencode=arch=compute_100f,code=sm_100f"]),
        ("12.0f", ["-gencode=arch=compute_120f,code=sm_120f"]),
        ("10.1", ["-gencode=arch=compute_101,code=sm_101"]),
        ("8.8", ["-gencode=arch=compute_88,code=sm_88"]),
        pytest.param(
            "9.0a+PTX",
            ["-gencode=arch=compute_90a,code=compute_90a", "-gencode=arch=compute_90a,code=sm_90a"],
            marks=HOLDS,
        ),
        pytest.param(
            "8.0 8.6", ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_86,code=sm_86"], marks=HOLDS
        ),
        pytest.param("Ampere+Tegra", ["-gencode=arch=compute_87,code=sm_87"], marks=HOLDS),
        pytest.param(
            "Hopper", ["-gencode=arch=compute_90,code=compute_90", "-gencode=arch=compute_90,code=sm_90"], marks=HOLDS
        ),
    ],
)
def test_14_new_architectures_are_known(
    tool: Tool, no_gpu: pytest.MonkeyPatch, value: str, expected: list[str]
) -> None:
    """PyTorch has a list in its source, and raises ValueError for what is newer."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    assert tool.api._get_cuda_arch_flags() == expected


@pytest.mark.torch_fails(by=ValueError)
@pytest.mark.parametrize("value", ["All", "Common"])
def test_14_words_of_cmake_are_known(tool: Tool, no_gpu: pytest.MonkeyPatch, value: str) -> None:
    """PyTorch raises ValueError for them."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    flags = tool.api._get_cuda_arch_flags()
    assert {"-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"} <= set(flags)
    assert sum("code=compute_" in flag for flag in flags) == 1


@pytest.mark.torch_fails(by=AssertionError)
def test_14_word_without_meaning_is_a_value_error_that_says_what_to_write(
    tool: Tool, no_gpu: pytest.MonkeyPatch
) -> None:
    """PyTorch's does not say what to write."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "9.0 nine")
    with pytest.raises(ValueError, match=r"'nine' is not a CUDA architecture\. Write them like"):
        tool.api._get_cuda_arch_flags()


@pytest.mark.torch_fails(by=AssertionError)
@pytest.mark.parametrize("flag", ["-I/home/me/research/include", "-Dsearch=1", "-march=native", "--archive"])
def test_15_flag_that_only_contains_arch_keeps_the_architectures(
    tool: Tool, no_gpu: pytest.MonkeyPatch, flag: str
) -> None:
    """PyTorch compiles for nvcc's default then, whatever TORCH_CUDA_ARCH_LIST says."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    assert tool.api._get_cuda_arch_flags([flag]) == ["-gencode=arch=compute_90,code=sm_90"]


@pytest.mark.torch_holds
@pytest.mark.parametrize(
    "flag",
    [
        "-arch=sm_80",
        "-gencode=arch=compute_80,code=sm_80",
        "--gpu-architecture=sm_80",
        pytest.param("-gencode", marks=pytest.mark.torch_fails(by=AssertionError)),
        "-arch",
    ],
)
def test_15_users_own_architectures_replace_ours(tool: Tool, no_gpu: pytest.MonkeyPatch, flag: str) -> None:
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    assert tool.api._get_cuda_arch_flags(["-O3", flag]) == []


@pytest.mark.compile
@pytest.mark.torch_fails(by=AssertionError)
def test_16_jobs_are_bounded_by_cores_and_memory(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch tells ninja nothing, and ninja starts two more than there are cores, however little memory is free."""
    from opsmith.build import jobs, ninja
    from opsmith.toolchain import find_ninja

    real, log = find_ninja(), tmp_path / "log"
    fake = tmp_path / "bin" / "ninja"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    for name in ("OPSMITH_JOBS", "MAX_JOBS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ninja, "find_ninja", lambda: fake)
    monkeypatch.setattr(jobs, "cpu_count", lambda: 16)
    monkeypatch.setattr(jobs, "available_memory_bytes", lambda: 5 << 30)  # two sources that read torch's headers
    sources = []
    for index in range(4):
        text = MODULE if index == 0 else f"int other{index}() {{ return 1; }}\n"
        sources.append(tmp_path / f"{index}.cpp")
        sources[-1].write_text(f"#include <torch/headeronly/version.h>\n{text}")
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    folder = tmp_path / "build"
    folder.mkdir()
    assert tool.api.load("mode16", [str(path) for path in sources], build_directory=str(folder)).value() == 1
    runs = [line.split() for line in log.read_text().splitlines() if "--version" not in line]
    assert all("-j" in words for words in runs)
    assert {words[words.index("-j") + 1] for words in runs} == {"2"}


@pytest.mark.torch_fails(by=AssertionError)
def test_25_clang_is_held_to_clangs_minimum(tool: Tool, tmp_path: Path) -> None:
    """PyTorch compares clang's version with GCC's minimum, and only ever warns."""
    for version, fits in (("14.0.6", True), ("6.0.1", False)):
        program = tmp_path / f"clang-{version}"
        program.write_text(f"#!/bin/sh\necho 'Debian clang version {version}'\necho 'Target: x86_64-pc-linux-gnu'\n")
        program.chmod(0o755)
        compatible, found = tool.api.get_compiler_abi_compatibility_and_version(str(program))
        assert compatible is fits
        assert str(found) == (version if fits else "0.0.0")
        assert not tool.api.check_compiler_is_gcc(str(program))


@pytest.mark.torch_holds
def test_25_check_of_the_compiler_can_be_switched_off(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DONT_CHECK_COMPILER_ABI", "1")
    assert tool.api.get_compiler_abi_compatibility_and_version("nothing")[0]


@pytest.mark.compile
@pytest.mark.torch_fails(by=AssertionError)
def test_26_load_needs_no_setuptools(tool: Tool, module: Path) -> None:
    """PyTorch imports setuptools for everything."""
    code = f"""
import sys
sys.modules["setuptools"] = None  # any import of it raises
import {tool.module} as tool
print(tool.load("mode26", [{str(module)!r}]).value())
"""
    assert tool.run(code, is_imported=False) == "1"
