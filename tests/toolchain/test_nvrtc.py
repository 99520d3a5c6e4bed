"""NVRTC is found where wheels, conda and toolkits bring it, and asked in another process; a stand-in answers here."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import ProbeCache, find_nvrtc, nvrtc
from opsmith.toolchain.nvrtc import nvrtc_note

pytestmark = pytest.mark.compile

_SOURCE = """
int nvrtcVersion(int* major, int* minor) { *major = MAJOR; *minor = 1; return FAILS; }
int nvrtcGetNumSupportedArchs(int* count) { *count = 2; return 0; }
int nvrtcGetSupportedArchs(int* archs) { archs[0] = 100; archs[1] = 90; return 0; }
"""


@functools.cache
def _library(major: int, fails: int = 0) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "nvrtc.c"), Path(folder, "libnvrtc.so")
        source.write_text(_SOURCE)
        macros = [f"-DMAJOR={major}", f"-DFAILS={fails}"]
        subprocess.run(["gcc", *macros, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        return library.read_bytes()


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that puts a library below an empty machine's folders."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(nvrtc, "_SYSTEM", tmp_path / "local")
    monkeypatch.setattr(nvrtc, "_DEBIAN", (tmp_path / "debian",))

    def put_library(path: str, major: int = 13, fails: int = 0) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_library(major, fails))
        return file

    return put_library


def test_what_is_known_of_it(put: Callable[..., Path], tmp_path: Path) -> None:
    library = put("site/nvidia/cu13/lib/libnvrtc.so.13")
    include = tmp_path / "site" / "nvidia" / "cu13" / "include"
    (include / "cccl").mkdir(parents=True)
    (include / "cuda_fp16.h").touch()
    found = find_nvrtc(probes=ProbeCache())
    assert (found.library, found.version, found.archs) == (library, "13.1", ("9.0", "10.0"))
    assert found.includes == (include, include / "cccl")
    assert found.identity == f"NVRTC 13.1 ({found.build})"
    assert nvrtc_note(None) == str(library)
    # Another build of the same version is another compiler.
    library.write_bytes(_library(13) + b"\0")
    assert find_nvrtc(probes=ProbeCache()).identity != found.identity


def test_order_of_the_places(put: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        "debian/libnvrtc.so.13",
        "local/cuda-12.8/lib64/libnvrtc.so.12",
        "local/cuda/targets/x86_64-linux/lib/libnvrtc.so.13",
        "conda/lib/libnvrtc.so.13",
        "site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "site/nvidia/cu13/lib/libnvrtc.so.13",
        "home/lib64/libnvrtc.so.13",
    ]
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    for place in places:
        library = put(place)
        # These are not it.
        (library.parent / "libnvrtc-builtins.so.13.1").touch()
        (library.parent / "libnvrtc.alt.so.13").touch()
        assert nvrtc_note(None) == str(library)
    # Of torch's CUDA comes first.
    assert nvrtc_note("12.8") == str(tmp_path / places[4])
    assert nvrtc_note("13.0") == str(tmp_path / places[-1])
    assert nvrtc_note("11.8") == str(tmp_path / places[-1])


@pytest.mark.parametrize(("cuda", "wheel"), [(None, r'"opsmith\[nvrtc\]"`'), ("12.6", "nvidia-cuda-nvrtc-cu12`")])
def test_a_machine_without_it(put: Callable[..., Path], cuda: str | None, wheel: str) -> None:
    with pytest.raises(ToolchainError, match=f"has no NVRTC .*`pip install {wheel}"):
        find_nvrtc(fit=cuda, probes=ProbeCache())
    assert nvrtc_note(cuda) == ""


def test_libraries_that_do_not_serve(put: Callable[..., Path]) -> None:
    put("debian/libnvrtc.so.11", major=11)
    with pytest.raises(ToolchainError, match="is of CUDA 11; opsmith needs 12 or newer"):
        find_nvrtc(probes=ProbeCache())
    put("local/cuda/lib64/libnvrtc.so.13", fails=7)
    with pytest.raises(ToolchainError, match="nvrtcVersion fails"):
        find_nvrtc(probes=ProbeCache())
    put("site/nvidia/cu13/lib/libnvrtc.so.13").write_bytes(b"no library")
    with pytest.raises(ToolchainError, match="libnvrtc"):
        find_nvrtc(probes=ProbeCache())
