"""Homes, folders of headers and libraries: found when asked, and decided by who assigns to the drop-in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from opsmith import cpp_extension
from opsmith.cpp_extension import homes, paths
from opsmith.toolchain import find_torch

TORCH = Path(torch.__file__).parent


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "cuda"
    (home / "include").mkdir(parents=True)
    (home / "include" / "cuda_runtime.h").touch()
    (home / "lib").mkdir()
    for name in ("CUDA_PATH", "CUDA_INC_PATH", "CUDNN_HOME", "CUDNN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return home


def test_cpu_paths_are_torchs() -> None:
    include = TORCH / "include"
    assert cpp_extension.include_paths() == [str(include), str(include / "torch" / "csrc" / "api" / "include")]
    assert cpp_extension.include_paths(torch_include_dirs=False) == []
    assert cpp_extension.library_paths() == [str(TORCH / "lib")]
    with pytest.raises(AttributeError):
        cpp_extension.include_paths.nothing  # noqa: B018


def test_cuda_home_that_is_set_after_the_import_counts(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch reads CUDA_HOME once. Where torch is a CPU build it has none, and nothing is looked for."""
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    home = cpp_extension.CUDA_HOME
    assert home == (None if torch.version.cuda is None else str(toolkit))
    monkeypatch.setattr(paths, "find_torch", lambda: replace(find_torch(), cuda="13.0"))
    assert cpp_extension._join_cuda_home("bin", "nvcc") == str(toolkit / "bin" / "nvcc")
    assert str(toolkit / "include") in cpp_extension.include_paths("cuda")
    assert cpp_extension.library_paths("cuda")[-1] == str(toolkit / "lib")
    (toolkit / "lib64").mkdir()
    assert cpp_extension.library_paths("cuda")[-1] == str(toolkit / "lib64")


def test_assigned_cuda_home_counts_before_the_environment(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/somewhere/else")
    monkeypatch.setitem(vars(cpp_extension), "CUDA_HOME", str(toolkit))
    assert cpp_extension._join_cuda_home("bin") == str(toolkit / "bin")
    assert str(toolkit / "include") in cpp_extension.include_paths("cuda")
    with homes.assigned_homes():
        from opsmith import _env

        assert _env.read("CUDA_HOME") == str(toolkit)
    assert _env.read("CUDA_HOME") == "/somewhere/else"


def test_missing_toolkit_is_an_os_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(cpp_extension), "CUDA_HOME", None)
    for version, remedy in (
        ("13.0", r"Set CUDA_HOME.*opsmith\[cuda\]"),
        (None, r"without CUDA.*cpp_extension\.CUDA_HOME"),
    ):
        monkeypatch.setattr(paths, "find_torch", lambda version=version: replace(find_torch(), cuda=version))
        with pytest.raises(OSError, match=remedy):
            cpp_extension.include_paths("cuda")
    monkeypatch.setitem(vars(cpp_extension), "SYCL_HOME", None)
    with pytest.raises(OSError, match="icpx"):
        cpp_extension.library_paths("xpu")
    with pytest.raises(OSError, match="ROCM_HOME"):
        cpp_extension._join_rocm_home("bin")


def test_cudnn_and_cuda_inc_path_are_added(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(cpp_extension), "CUDA_HOME", str(toolkit))
    monkeypatch.setenv("CUDA_INC_PATH", "/opt/inc")
    monkeypatch.setenv("CUDNN_PATH", "/opt/cudnn")
    assert cpp_extension.CUDNN_HOME == "/opt/cudnn"
    assert cpp_extension.include_paths("cuda")[-2:] == ["/opt/inc", "/opt/cudnn/include"]
    assert cpp_extension.library_paths("cuda")[-1] == "/opt/cudnn/lib"


def test_windows_cross_library_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDOWS_CUDA_HOME", raising=False)
    with pytest.raises(RuntimeError, match="WINDOWS_CUDA_HOME"):
        cpp_extension.library_paths("cuda", cross_target_platform="windows")
    monkeypatch.setenv("WINDOWS_CUDA_HOME", "/win")
    found = cpp_extension.library_paths("cuda", torch_include_dirs=False, cross_target_platform="windows")
    assert found == ["/win/lib/x64"]


def test_build_directory_is_where_torch_would_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opsmith.cpp_extension.original import torch_module

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    assert cpp_extension.get_default_build_root() == torch_module().get_default_build_root()
    assert cpp_extension._get_build_directory("a", False) == torch_module()._get_build_directory("a", False)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "mine"))
    assert cpp_extension._get_build_directory("a", False) == str(tmp_path / "mine" / "a")
    assert (tmp_path / "mine" / "a").is_dir()


def test_store_lies_in_torch_extensions_dir_unless_opsmith_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "own"))
    assert homes.store_root() == tmp_path / "own"
    monkeypatch.delenv("OPSMITH_CACHE_DIR")
    assert homes.store_root() == tmp_path / "opsmith"
