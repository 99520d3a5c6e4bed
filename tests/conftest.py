"""What all tests share: a store that is kept between runs and is not the user's, a core for each worker, a user's Python."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import filelock
import pytest

import opsmith

# `from forks import python_c`: for tests of what a new process does.
sys.path.append(str(Path(__file__).parent))

from cache import CACHE
from run_alone import Turns, all_cores, put_those_alone_last


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --nightly K/N, for CI: what is too long for each change runs in parts, another one with each."""
    parser.addoption(
        "--nightly", metavar="K/N", help="of the tests marked nightly, those of part K of N, from 0 to N-1"
    )


def pytest_configure() -> None:
    _keep_a_core()
    # `PYTHONPATH=src` is of no use to what tests start in other folders.
    if path := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(
            str(Path(entry).resolve()) for entry in path.split(os.pathsep) if entry
        )


def _keep_a_core() -> None:
    """Give each of pytest-xdist's workers a core of its own, where there are as many, before torch counts them.

    What a test starts stays there too: compilers, the processes of a check, OpenMP's threads. Workers then take nothing
    from one another, and no time goes into switching between threads that share a core. `all_cores` is the exception.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if int(os.environ["PYTEST_XDIST_WORKER_COUNT"]) >= len(cores):
            os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def pytest_collection_finish() -> None:
    """Write no bytecode from here on: tests edit modules within a second, which is what its time stamps tell apart."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


_STARTED = pytest.StashKey[float]()
_turns = Turns(CACHE)


def _spent_s() -> float:
    """Return the processor time of this process and of those it waited for, itself or through `forks`."""
    forks = sys.modules.get("forks")
    return sum(os.times()[:4]) + (forks.spent_s() if forks is not None else 0.0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take the processor's time as a test begins."""
    item.stash[_STARTED] = _spent_s()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note in the JUnit file how much processor time a test took, with the processes it waited for."""
    if call.when == "teardown" and _STARTED in item.stash:
        spent_s = _spent_s() - item.stash[_STARTED]
        item.user_properties.append(("processor_s", round(spent_s, 3)))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Give the GPU's memory back, which torch keeps for this process: a worker each would fill it."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Run a test beside those of other workers, or, if it is marked so, alone, when they have finished theirs."""
    with _turns.of(item, nextitem):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def session_store() -> Iterator[Path]:
    """Send every build to one store that outlives the run; it finds by content, so nothing in it is ever stale.

    It lies in build/test-cache, or where OPSMITH_TEST_CACHE says. A test that must see a build uses `empty_store`.
    """
    root = CACHE
    root.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, _kept_inductor_cache(root) as inductor:
        # No variable of opsmith's: `opsmith doctor` would call it misspelt.
        patch.delenv("OPSMITH_TEST_CACHE", raising=False)
        patch.setenv("OPSMITH_CACHE_DIR", str(root / "store"))
        patch.setenv("OPSMITH_QUIET", "1")
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(inductor))
        # Nothing shall run in the background of a test; those of precompiled headers say so themselves.
        patch.setenv("OPSMITH_PCH", "off")
        if os.environ.get("OPSMITH_BRIDGE") != "off":
            # All tests run with the bridge, which is built here where the store has none yet. With OPSMITH_BRIDGE=off
            # they run on the path in Python. Tests with stores of their own set `off`: nobody would use what they build.
            from opsmith.runtime.bridge import find_bridge

            patch.setenv("OPSMITH_BRIDGE", "wait")
            with all_cores():  # the other workers wait for it as well
                assert find_bridge() is not None
            patch.setenv("OPSMITH_BRIDGE", "auto")
        yield root / "store"


@pytest.fixture
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a test a store of its own with nothing in it, for what it must see built; the bridge is not."""
    root = tmp_path / "empty-store"
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(root))
    monkeypatch.setenv("OPSMITH_BRIDGE", "off")
    return root


@contextmanager
def _kept_inductor_cache(root: Path) -> Iterator[Path]:
    """Keep TorchInductor's cache between runs, unless a run was killed: Inductor writes libraries in place.

    Each process leaves its number in `users` while it runs. Numbers that are there without their processes are those
    of a killed run, which may have left half a library behind.
    """
    cache, users = root / "inductor", root / "users"
    users.mkdir(exist_ok=True)
    own = users / str(os.getpid())
    with filelock.FileLock(root / "users.lock"):
        others = list(users.iterdir())
        if others and not any(Path("/proc", other.name).exists() for other in others):
            shutil.rmtree(cache, ignore_errors=True)
            for other in others:
                other.unlink()
        own.touch()
    try:
        yield cache
    finally:
        own.unlink(missing_ok=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a slow test that does not say what takes long, and skip what needs a GPU where there is none."""
    for item in items:
        for mark in (*item.iter_markers("slow"), *item.iter_markers("nightly")):
            if not mark.args:
                raise pytest.UsageError(f"{item.nodeid} is slow: say why, as in slow('compiles with Inductor')")
    if part := config.getoption("--nightly"):
        _keep_part(config, items, *map(int, part.split("/")))
    _skip_without_gpu([item for item in items if item.get_closest_marker("gpu") is not None])
    put_those_alone_last(items)


def _keep_part(config: pytest.Config, items: list[pytest.Item], part: int, parts: int) -> None:
    # By the name alone, so that each worker keeps the same ones and a new test moves no other to another part.
    others = [
        item
        for item in items
        if item.get_closest_marker("nightly") is not None and zlib.crc32(item.nodeid.encode()) % parts != part
    ]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


def _skip_without_gpu(items: list[pytest.Item]) -> None:
    if not items:
        return
    import torch

    if torch.cuda.is_available():
        return
    reason = (
        "needs a GPU; torch sees none here" if torch.backends.cuda.is_built() else "needs a GPU; torch is a CPU build"
    )
    for item in items:
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
        "[setuptools.finalize_distribution_options]\nopsmith = opsmith.package.hook:finalize_distribution_options\n"
        "[cmake.prefix]\nopsmith = opsmith.cmake\n"
        "[pytest11]\nopsmith = opsmith.pytest_plugin\n"
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
