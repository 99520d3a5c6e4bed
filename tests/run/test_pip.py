"""pip below `opsmith run`: in its own environment, in an isolated one, and with its cache of wheels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from opsmith.run.hook.opsmith_run_hook import SERVED

pytestmark = [pytest.mark.slow("pip builds projects in isolation"), pytest.mark.compile]

# A backend in the project's tree stands for an isolated environment into which pip has put torch and setuptools: the
# backend finds them in a folder that has all that this environment has, but nothing of what opsmith brings.
_BACKEND = """
import sys
from importlib.util import find_spec

assert find_spec("opsmith") is None and find_spec("torch") is None
sys.path.append({folder!r})
assert find_spec("opsmith") is None and find_spec("filelock") is None
from setuptools.build_meta import *
"""


def _environment_without_opsmith(folder: Path) -> Path:
    folder.mkdir()
    for installed in Path(sysconfig.get_path("purelib")).iterdir():
        name = installed.name.partition("-")[0].partition(".")[0]
        if name not in SERVED and installed.suffix != ".pth":
            (folder / installed.name).symlink_to(installed)
    return folder


def _value(folder: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import torch, tiny_native; print(tiny_native.answer())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.nightly("make test-all has the build in isolation")
def test_pip_builds_an_unchanged_project_in_its_own_environment(below, tiny, tmp_path):
    report = tmp_path / "report.txt"
    target = tmp_path / "target"
    done = below(
        *(sys.executable, "-m", "pip", "install", "-v", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--target", target, tiny),
        OPSMITH_CACHE_DIR=str(tmp_path / "store"),  # other tests build the same project
        OPSMITH_RUN_REPORT=str(report),
    )
    assert _value(target) == "42"
    assert "opsmith: building tiny_native" in done.stderr
    # `-v` shows each file as it is done.
    assert "opsmith  tiny_native  [1/2]  tiny.cpp" in done.stderr
    assert "opsmith  built tiny_native in" in done.stderr
    assert "cpp_extension" in report.read_text()


def test_pip_builds_an_unchanged_project_in_an_isolated_environment(below, tiny, tmp_path):
    installed = _environment_without_opsmith(tmp_path / "installed")
    (tiny / "isolated_backend.py").write_text(_BACKEND.format(folder=str(installed)))
    (tiny / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "isolated_backend"\nbackend-path = ["."]\n'
    )
    target = tmp_path / "target"
    done = below(
        *(sys.executable, "-m", "pip", "install", "-v", "--no-deps", "--no-index", "--target", target, tiny),
        OPSMITH_CACHE_DIR=str(tmp_path / "store"),
    )
    assert _value(target) == "42"
    assert "opsmith: building tiny_native" in done.stderr


@pytest.mark.nightly("pip builds a project twice in isolation")
def test_wheels_of_the_two_tools_do_not_meet_in_pips_cache(below, tiny, tmp_path):
    # pip keeps the wheels of archives; those of folders it builds each time.
    subprocess.run([sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path / "links"], cwd=tiny, check=True)
    (tmp_path / "links").mkdir(exist_ok=True)
    words = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "--no-index"]
    words += ["--find-links", tmp_path / "links", "-w", tmp_path / "wheels", "tiny"]
    env = {"PIP_CACHE_DIR": str(tmp_path / "cache")}
    before = {**os.environ, **env, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    subprocess.run([str(word) for word in words], env=before, check=True, capture_output=True)
    (cached,) = (tmp_path / "cache").rglob("*.whl")
    (tmp_path / "wheels" / cached.name).unlink()

    # It is built by the drop-in, though from its store, where another test has built it.
    assert re.search(r"opsmith: (building tiny_native|tiny_native comes from the store)", below(*words, **env).stderr)
    assert len(list((tmp_path / "cache").rglob("*.whl"))) == 2
    (tmp_path / "wheels" / cached.name).unlink()
    # Its own it does use again.
    assert "opsmith: building" not in below(*words, **env).stderr
