"""nvcc is found where users have it, the real one behind links and scripts, with headers and a host compiler."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_cuda_compiler
from opsmith.toolchain.nvcc_search import found_nvccs

VERSION = "Cuda compilation tools, release {release}, V{release}.88\nBuild cuda_{release}.r{release}/compiler.1_0\n"
ARCHS = "compute_75\ncompute_90\ncompute_103\ncompute_120\ncompute_100\n"
HOST_CONFIG = """
#error -- unsupported GNU version! gcc versions later than {gcc} are not supported!
#error -- unsupported clang version! clang version must be less than 21 and greater than 3.2 .
"""


@pytest.fixture(autouse=True)
def no_real_toolkit(machine, monkeypatch):
    """Keep the toolkit and the wheels of the machine that runs the tests out of sight."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", str(machine.bin))
    find = "opsmith.toolchain.nvcc_search.is_executable"
    is_executable = sys.modules["opsmith.toolchain.search"].is_executable
    monkeypatch.setattr(find, lambda path: not str(path).startswith("/usr/local/cuda") and is_executable(path))


@pytest.fixture
def put_toolkit(machine):
    """Make a toolkit below a folder and return its nvcc."""

    def do(root: Path, release: str = "13.0", gcc: int = 15, include: str = "include") -> Path:
        for name in ("cuda_runtime.h", "crt/host_config.h", "cccl/nv/target"):
            header = root / include / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(HOST_CONFIG.format(gcc=gcc) if name == "crt/host_config.h" else "")
        for name in ("bin/nvcc.profile", "nvvm/bin/cicc", "lib/libcudart.so.13"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        answers = {
            "--version": VERSION.format(release=release),
            "--list-gpu-arch": ARCHS,
            "--dryrun": f"#$ _SPACE_= \n#$ _HERE_={root}/bin\n#$ TOP={root}/bin/..\n",
        }
        cases = "".join(f"{option}) printf '%s' '{answer}';;\n" for option, answer in answers.items())
        return machine.put(root / "bin/nvcc", then=f'case "$1" in\n{cases}esac')

    return do


def test_a_toolkit_is_described(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    nvcc = put_toolkit(tmp_path / "cuda")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    cuda = find_cuda_compiler(probes=probes)
    assert (cuda.nvcc, cuda.root, cuda.version) == (nvcc, tmp_path / "cuda", "13.0.88")
    assert cuda.include_dirs == (tmp_path / "cuda/include", tmp_path / "cuda/include/cccl")
    assert cuda.archs == ("7.5", "9.0", "10.0", "10.3", "12.0")
    assert cuda.cudart == tmp_path / "cuda/lib/libcudart.so.13"
    assert cuda.host.version == "12.2.0"
    assert cuda.identity.startswith("nvcc V13.0.88 (cuda_13.0.r13.0/compiler.1_0) with gcc version 12.2.0")
    assert str(tmp_path) not in cuda.identity


def test_a_warm_cache_starts_nothing(machine, probes, put_toolkit, tmp_path):
    machine.put_gcc()
    put_toolkit(tmp_path / "cuda")
    machine.put("nvcc", then=f'exec "{tmp_path}/cuda/bin/nvcc" "$@"')
    first = find_cuda_compiler(probes=probes)
    started = len(machine.started)
    assert find_cuda_compiler(probes=probes) == first
    assert len(machine.started) == started


def test_the_headers_of_the_machines_target_come_first(machine, probes, put_toolkit, monkeypatch, tmp_path):
    target = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}.get(platform.machine())
    if target is None:
        pytest.skip("CUDA has no such machine")
    machine.put_gcc()
    put_toolkit(tmp_path / "cuda", include=f"targets/{target}/include")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_cuda_compiler(probes=probes).include == tmp_path / f"cuda/targets/{target}/include"


def test_a_script_on_path_is_seen_through(machine, probes, put_toolkit, tmp_path):
    machine.put_gcc()
    nvcc = put_toolkit(tmp_path / "cuda")
    machine.put("nvcc", then=f'exec "{nvcc}" "$@"')
    cuda = find_cuda_compiler(probes=probes)
    assert (cuda.nvcc, cuda.root) == (nvcc, tmp_path / "cuda")


def test_a_link_on_path_is_seen_through(machine, probes, put_toolkit, tmp_path):
    machine.put_gcc()
    nvcc = put_toolkit(tmp_path / "cuda-13.0")
    (tmp_path / "cuda").symlink_to("cuda-13.0")
    (machine.bin / "nvcc").symlink_to(tmp_path / "cuda/bin/nvcc")
    assert find_cuda_compiler(probes=probes).nvcc == nvcc


def test_a_script_that_leads_nowhere_is_told(machine, probes):
    machine.put_gcc()
    machine.put("nvcc", "hello")
    with pytest.raises(ToolchainError, match=r"does not report where its toolkit is\. Set CUDA_HOME"):
        find_cuda_compiler(probes=probes)


def test_the_wheels_are_found_without_path(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    put_toolkit(tmp_path / "site-packages/nvidia/cu13")
    newest = put_toolkit(tmp_path / "site-packages/nvidia/cu14", release="14.1")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "site-packages")])
    assert find_cuda_compiler(probes=probes).nvcc == newest


def test_a_wheel_of_cuda_12_has_no_nvcc(machine, probes, monkeypatch, tmp_path):
    """What it has, ptxas and headers, is not taken for a toolkit."""
    machine.put(tmp_path / "site-packages/nvidia/cuda_nvcc/bin/ptxas")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    with pytest.raises(ToolchainError, match="No CUDA compiler was found"):
        find_cuda_compiler(probes=probes)


@pytest.mark.parametrize("how", ["activated", "by path"])
def test_a_conda_environment_is_found(machine, probes, put_toolkit, monkeypatch, tmp_path, how):
    machine.put_gcc()
    target = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}[platform.machine()]
    nvcc = put_toolkit(tmp_path / "conda", include=f"targets/{target}/include")
    if how == "activated":
        monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    else:
        (tmp_path / "conda/conda-meta").mkdir()
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "conda"))
    cuda = find_cuda_compiler(probes=probes)
    assert (cuda.nvcc, cuda.include) == (nvcc, tmp_path / f"conda/targets/{target}/include")


def test_of_several_the_one_that_fits_torch_is_taken(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    put_toolkit(tmp_path / "old", release="12.4")
    fitting = put_toolkit(tmp_path / "site-packages/nvidia/cu13")
    (machine.bin / "nvcc").symlink_to(tmp_path / "old/bin/nvcc")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    assert find_cuda_compiler(probes=probes).version == "12.4.88"
    assert find_cuda_compiler(probes=probes, fit="12.8").version == "12.4.88"
    assert find_cuda_compiler(probes=probes, fit="13.0").nvcc == fitting
    assert find_cuda_compiler(probes=probes, fit="14.0").version == "12.4.88"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "old"))
    assert find_cuda_compiler(probes=probes, fit="13.0").version == "12.4.88"


def test_a_release_that_is_asked_for_is_the_only_one(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    old = put_toolkit(tmp_path / "old", release="12.4")
    put_toolkit(tmp_path / "site-packages/nvidia/cu13")
    (machine.bin / "nvcc").symlink_to(old)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    for release, version in (("12", "12.4.88"), ("12.4", "12.4.88"), ("13", "13.0.88")):
        assert find_cuda_compiler(probes=probes, release=release, fit="13.0").version == version
    for release in ("12.8", "1", "14"):
        with pytest.raises(ToolchainError, match=rf"CUDA {release} is asked for, and there is 12\.4\.88 .*13\.0\.88"):
            find_cuda_compiler(probes=probes, release=release)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "old"))
    with pytest.raises(
        ToolchainError, match=r"CUDA 13 is asked for, and there is 12\.4\.88 [^,]*Install .*set CUDA_HOME"
    ):
        find_cuda_compiler(probes=probes, release="13")


def test_toolkits_of_the_system_are_found_the_newest_first(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    monkeypatch.setattr("opsmith.toolchain.nvcc_search._SYSTEM", tmp_path)
    for release in ("12.8", "12.10", "13.0"):
        put_toolkit(tmp_path / f"cuda-{release}", release=release)
    assert [item.origin for item in found_nvccs()] == [
        str(tmp_path / f"cuda-{name}") for name in ("13.0", "12.10", "12.8")
    ]
    (tmp_path / "cuda").symlink_to("cuda-12.8")
    assert [item.path.parts[-3] for item in found_nvccs()] == ["cuda", "cuda-13.0", "cuda-12.10"]
    assert find_cuda_compiler(probes=probes).version == "12.8.88"
    assert find_cuda_compiler(probes=probes, release="12").version == "12.8.88"
    assert find_cuda_compiler(probes=probes, fit="13.2").version == "13.0.88"


def test_the_users_choice_comes_first(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    for name in ("on_path", "path", "home"):
        put_toolkit(tmp_path / name)
    (machine.bin / "nvcc").symlink_to(tmp_path / "on_path/bin/nvcc")
    assert find_cuda_compiler(probes=probes).root.name == "on_path"
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "path"))
    assert find_cuda_compiler(probes=probes).root.name == "path"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert find_cuda_compiler(probes=probes).root.name == "home"


def test_a_wrong_choice_is_not_replaced_by_another(machine, probes, put_toolkit, monkeypatch, tmp_path):
    put_toolkit(tmp_path / "cuda")
    (machine.bin / "nvcc").symlink_to(tmp_path / "cuda/bin/nvcc")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    with pytest.raises(ToolchainError, match="CUDA_HOME is /nowhere, but /nowhere/bin/nvcc is not a program"):
        find_cuda_compiler(probes=probes)


def test_none_at_all(machine, probes):
    with pytest.raises(ToolchainError, match=r"No CUDA compiler was found.*pip install 'opsmith\[cuda\]'"):
        find_cuda_compiler(probes=probes)


def test_one_that_is_too_old(machine, probes, put_toolkit, monkeypatch, tmp_path):
    put_toolkit(tmp_path / "cuda", release="11.8")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    with pytest.raises(ToolchainError, match=r"is CUDA 11\.8; opsmith needs 12\.0 or newer"):
        find_cuda_compiler(probes=probes)


@pytest.fixture
def put_wheel(monkeypatch, tmp_path):
    """Put what torch from PyPI brings of CUDA into an environment, and return its folder."""

    def do(release: str = "13.0", *, crt: bool = True) -> Path:
        wheel = tmp_path / "site-packages/nvidia/cu13"
        major, minor = release.split(".")
        headers = {
            "cuda_runtime.h": "",
            "cuda_runtime_api.h": f"#define CUDART_VERSION  {major}0{minor}0\n",
            "cusparse.h": "",
            "cccl/nv/target": "",
            **({"crt/host_config.h": HOST_CONFIG.format(gcc=11)} if crt else {}),
        }
        for name, text in headers.items():
            (wheel / "include" / name).parent.mkdir(parents=True, exist_ok=True)
            (wheel / "include" / name).write_text(text)
        (wheel / "lib").mkdir(exist_ok=True)
        (wheel / "lib/libcudart.so.13").touch()
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
        return wheel

    return do


PARTS = ["include/cuda_runtime.h", "include/crt/host_config.h", "include/cccl/nv/target", "nvvm/bin/cicc"]


@pytest.mark.parametrize("missing", PARTS)
def test_a_part_that_is_missing_is_named_with_the_command_that_installs_it(
    machine, probes, put_toolkit, monkeypatch, tmp_path, missing
):
    machine.put_gcc()
    put_toolkit(tmp_path / "cuda")
    monkeypatch.setattr("opsmith.toolchain.cuda_parts._SYSTEM", tmp_path / "none")
    (tmp_path / "cuda" / missing).unlink()
    (machine.bin / "nvcc").symlink_to(tmp_path / "cuda/bin/nvcc")
    said = rf"cuda has nvcc 13\.0 but not .*{missing}.*pip install .*13\.0\.\*'`\."
    with pytest.raises(ToolchainError, match=said) as raised:
        find_cuda_compiler(probes=probes)
    assert isinstance(raised.value, OSError)
    # What the command does: an nvcc with all its parts beside this Python.
    wheel = put_toolkit(tmp_path / "site-packages/nvidia/cu13")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    if missing == "nvvm/bin/cicc":
        assert find_cuda_compiler(probes=probes).nvcc == wheel
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        with pytest.raises(ToolchainError, match="and unset CUDA_HOME"):
            find_cuda_compiler(probes=probes)
    else:
        assert find_cuda_compiler(probes=probes)


@pytest.mark.parametrize("missing", [*PARTS[:3], "lib/libcudart.so.13"])
def test_wheels_of_the_environment_have_what_the_toolkit_lacks(
    machine, probes, put_toolkit, put_wheel, monkeypatch, tmp_path, missing
):
    """nvcc of the system, without its libraries, and torch from PyPI."""
    machine.put_gcc("g++", "11.3.0")
    put_toolkit(tmp_path / "cuda")
    monkeypatch.setattr("opsmith.toolchain.cuda_parts._SYSTEM", tmp_path / "none")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    wheel = put_wheel()
    whole = find_cuda_compiler(probes=probes)
    own = tmp_path / "cuda/include"
    assert whole.include_dirs == (own, own / "cccl", wheel / "include"), "cusparse.h, after the toolkit's own"
    (tmp_path / "cuda" / missing).unlink()
    cuda = find_cuda_compiler(probes=probes)
    assert (cuda.include, cuda.cudart) == {
        PARTS[0]: (wheel / "include", whole.cudart),
        "lib/libcudart.so.13": (own, wheel / "lib/libcudart.so.13"),
    }.get(missing, (own, whole.cudart))
    if missing in (PARTS[0], PARTS[2]):
        assert cuda.include_dirs[-1] == wheel / "include/cccl"


def test_without_libcudart_the_wheel_of_it_is_named(machine, probes, put_toolkit, monkeypatch, tmp_path):
    machine.put_gcc()
    put_toolkit(tmp_path / "cuda")
    (tmp_path / "cuda/lib/libcudart.so.13").unlink()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    with pytest.raises(ToolchainError, match=r"has no libcudart.*cuda-toolkit\[cudart\]==13\.0\.\*"):
        _ = find_cuda_compiler(probes=probes).required_cudart


def test_runtime_headers_of_another_release_are_not_mixed_in(
    machine, probes, put_toolkit, put_wheel, monkeypatch, tmp_path
):
    machine.put_gcc()
    put_toolkit(tmp_path / "cuda", release="13.2")
    monkeypatch.setattr("opsmith.toolchain.cuda_parts._SYSTEM", tmp_path / "none")
    (tmp_path / "cuda/include/cuda_runtime.h").unlink()
    (machine.bin / "nvcc").symlink_to(tmp_path / "cuda/bin/nvcc")
    put_wheel("13.0")
    with pytest.raises(ToolchainError, match=r"has nvcc 13\.2 but not .*cuda-toolkit==13\.0\.\*"):
        find_cuda_compiler(probes=probes)


def test_a_host_compiler_that_nvcc_refuses_is_passed_over(machine, probes, put_toolkit, monkeypatch, tmp_path):
    put_toolkit(tmp_path / "cuda", gcc=15)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    machine.put_gcc("g++", "16.1.0")
    with pytest.raises(ToolchainError, match=r"accepts gcc up to 15 and clang up to 20, but .*gcc 16\.1\.0.*g\+\+-15"):
        find_cuda_compiler(probes=probes)
    machine.put_gcc("g++-13", "13.2.0")
    machine.put_gcc("g++-14", "14.2.0")
    assert find_cuda_compiler(probes=probes).host.version == "14.2.0"


def test_nvcc_ccbin_is_trusted(machine, probes, put_toolkit, monkeypatch, tmp_path):
    put_toolkit(tmp_path / "cuda", gcc=15)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    machine.put_gcc("g++")
    chosen = machine.put_gcc("own/g++", "16.1.0")
    for value in (chosen, chosen.parent):
        monkeypatch.setenv("NVCC_CCBIN", str(value))
        assert find_cuda_compiler(probes=probes).host.path == chosen


def test_headers_that_state_no_limit_accept_every_host(machine, probes, put_toolkit, monkeypatch, tmp_path):
    put_toolkit(tmp_path / "cuda")
    (tmp_path / "cuda/include/crt/host_config.h").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    machine.put_gcc("g++", "99.1.0")
    assert find_cuda_compiler(probes=probes).host.version == "99.1.0"
