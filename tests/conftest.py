"""What all tests share: a store of their own, so that none touches the user's and equal definitions are built once."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import opsmith
from opsmith.runtime.bridge import find_bridge


@pytest.fixture(scope="session", autouse=True)
def session_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Send every build of the session to one temporary store; under pytest-xdist all workers share it."""
    base = tmp_path_factory.getbasetemp()
    # A worker's base is a folder of its own inside the session's.
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "opsmith-store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSMITH_CACHE_DIR", str(root))
        patch.setenv("OPSMITH_QUIET", "1")
        # TorchInductor's own cache may hold a library that a killed process has left half written.
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(root.with_name("inductor")))
        # Nothing shall run in the background of a test; those of precompiled headers say so themselves.
        patch.setenv("OPSMITH_PCH", "off")
        if os.environ.get("OPSMITH_BRIDGE") != "off":
            # All tests run with the bridge, which is built here where the session has none yet. With OPSMITH_BRIDGE=off
            # they run on the path in Python. Tests with stores of their own set `off`: nobody would use what they build.
            patch.setenv("OPSMITH_BRIDGE", "wait")
            assert find_bridge() is not None
            patch.setenv("OPSMITH_BRIDGE", "auto")
        yield root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none, and say so."""
    import torch

    if torch.cuda.is_available():
        return
    reason = (
        "needs a GPU; torch sees none here" if torch.backends.cuda.is_built() else "needs a GPU; torch is a CPU build"
    )
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class UserPython:
    """A virtual environment of a user who has torch and opsmith. What runs there sees no PYTHONPATH of ours."""

    executable: Path
    store: Path

    def run(
        self, *arguments: str | Path, cwd: Path, has_compilers: bool = True, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run Python there. Without compilers, PATH is empty and the store is one that does not exist."""
        env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "CXX", "CUDA_HOME"}}
        env |= {"OPSMITH_CACHE_DIR": str(self.store), "OPSMITH_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if not has_compilers:
            env |= {"PATH": "/nonexistent", "OPSMITH_CACHE_DIR": "/nonexistent/store"}
        done = subprocess.run(
            [self.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    def pip(self, *arguments: str | Path, cwd: Path, fails: bool = False) -> str:
        """Run pip for this environment and return what it prints."""
        pip = ["-m", "pip", "--no-input", *arguments]
        done = self.run(*pip, cwd=cwd, fails=fails)
        return done.stdout + done.stderr


@pytest.fixture
def user_python(tmp_path: Path, session_store: Path) -> UserPython:
    """Make a virtual environment that sees this one's packages, and opsmith as an installation would show it."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    executable = folder / "bin" / "python"
    asked = [executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    source = Path(opsmith.__file__).parents[1]
    (packages / "shared.pth").write_text("\n".join([str(source), *site.getsitepackages()]) + "\n")
    info = packages / f"opsmith-{opsmith.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: opsmith\nVersion: {opsmith.__version__}\n")
    (info / "entry_points.txt").write_text(
        "[setuptools.finalize_distribution_options]\nopsmith = opsmith.build.hook:finalize_distribution_options\n"
        "[cmake.prefix]\nopsmith = opsmith.cmake\n"
        "[pytest11]\nopsmith = opsmith.check.pytest_plugin\n"
    )
    return UserPython(executable, session_store)


@pytest.fixture
def cmake() -> Callable[..., str]:
    """Return a function that runs CMake; skip where there is none."""
    from opsmith.build.cmake import find_cmake
    from opsmith.errors import ToolchainError

    try:
        program = find_cmake()
    except ToolchainError as error:
        pytest.skip(str(error))

    def run(*arguments: str | Path, fails: bool = False) -> str:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([program, *arguments], env=env, capture_output=True, text=True, check=False, timeout=600)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
