"""The doctor works on machines that lack anything, and waits for nothing that hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opsmith
from opsmith import _subprocess
from opsmith.doctor import gpu
from opsmith.doctor.torch_state import ask_torch

SOURCE = Path(opsmith.__file__).parents[1]
NVIDIA_SMI = """| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0     |"""


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Return a function that puts a shell script on PATH, which then has it alone and the shell's own commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def do(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return do


@pytest.fixture
def fake_torch(tmp_path, monkeypatch):
    """Return a function that puts a torch of one line before the real one, for this process's subprocesses."""

    def do(line: str, version: str = "2.13.0") -> None:
        root = tmp_path / "fake" / "torch"
        (root / "include/torch/csrc").mkdir(parents=True)
        (root / "version.py").write_text(f"__version__ = {version!r}\ncuda = '12.8'\n")
        (root / "__init__.py").write_text(f"{line}\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
        monkeypatch.delitem(sys.modules, "torch")
        monkeypatch.syspath_prepend(str(tmp_path / "fake"))

    return do


def test_nothing_is_asked_where_no_driver_is(put):
    assert gpu.ask_drivers() == gpu.GpuState()


def test_the_driver_is_read(put):
    put("nvidia-smi", f"case \"$1\" in --query*) echo 'NVIDIA H200';; *) echo '{NVIDIA_SMI}';; esac")
    put("rocminfo", "echo '  Name:                    gfx942'; echo '  Name:                    gfx942'")
    state = gpu.ask_drivers()
    assert (state.names, state.driver, state.driver_cuda) == (("NVIDIA H200",), "580.65.06", "13.0")
    assert state.amd_archs == ("gfx942",)


def test_a_driver_that_fails_is_told(put):
    put("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    assert gpu.ask_drivers().failure == "Failed to initialize NVML: Driver/library version mismatch"


def test_a_driver_that_hangs_is_not_waited_for(put, monkeypatch):
    monkeypatch.setattr(gpu, "_TIMEOUT_S", 0.5)
    put("nvidia-smi", "while :; do :; done")
    start = time.monotonic()
    assert "did not finish" in (gpu.ask_drivers().failure or "")
    assert time.monotonic() - start < 10


def test_a_program_is_stopped_with_all_that_it_started(tmp_path):
    mark = tmp_path / "mark"
    done = _subprocess.ask(["sh", "-c", f"(sleep 1; echo > {mark}) & sleep 60"], timeout_s=0.3)
    assert isinstance(done, str)
    time.sleep(1)
    assert not mark.exists()


def test_a_program_that_is_not_there():
    assert "cannot be started" in str(_subprocess.ask(["/nowhere/nvidia-smi"], timeout_s=1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise ImportError('libcudart.so.12: cannot open shared object file')", "libcudart.so.12"),
        ("import os; os.abort()", "ended with status"),
        ("import time; time.sleep(60)", "did not finish"),
    ],
)
def test_a_torch_that_does_not_start_is_a_finding(fake_torch, monkeypatch, line, words):
    monkeypatch.setattr("opsmith.doctor.torch_state._TIMEOUT_S", 1.0 if "sleep" in line else 10.0)
    fake_torch(line)
    state = ask_torch()
    assert words in (state.broken or "")
    assert (state.version, state.cuda) == ("2.13.0", "12.8")


def test_a_torch_that_is_too_old_is_a_finding(fake_torch):
    fake_torch("", version="2.1.0")
    assert "needs torch 2.10 or newer" in (ask_torch().missing or "")


def test_without_torch_compiler_and_ninja_there_are_findings_and_no_traceback(tmp_path):
    """-S: Python alone; what the command line itself needs is given back."""
    import click

    # Its own folder for each, or torch would come with them.
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "click").symlink_to(Path(click.__file__).parent)
    (packages / "opsmith").symlink_to(SOURCE / "opsmith")
    env = {
        "PATH": "/nowhere",
        "PYTHONPATH": str(packages),
        "HOME": str(tmp_path),
        "OPSMITH_CACHE_DIR": str(tmp_path / "c"),
    }
    # With -m, Python looks in the working directory; a folder there is no package.
    (tmp_path / "packaging").mkdir()
    done = subprocess.run(
        [sys.executable, "-S", "-m", "opsmith", "doctor"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "no torch" in done.stdout
    assert "C++ compiler: none usable" in done.stdout
    assert "ninja: not found" in done.stdout
    assert "pip install filelock jaxtyping packaging platformdirs rich" in done.stdout


def test_without_a_place_for_the_cache_all_else_is_examined(tmp_path):
    """platformdirs, which would know the place, is not there."""
    import click

    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "click").symlink_to(Path(click.__file__).parent)
    (packages / "opsmith").symlink_to(SOURCE / "opsmith")
    done = subprocess.run(
        [sys.executable, "-S", "-m", "opsmith", "doctor", "--json"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    findings = {finding["title"]: finding for finding in json.loads(done.stdout)}
    titles = set(findings)
    assert findings["cache: check failed"]["remedy"] == "pip install platformdirs"
    assert any("cores, " in title or "core, " in title for title in titles)
