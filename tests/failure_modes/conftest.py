"""What these tests share: the tool that they ask, which is opsmith's drop-in or PyTorch's own module.

    pytest tests/failure_modes                  opsmith: every test passes
    pytest tests/failure_modes --tool torch     PyTorch: every test marked `torch_fails` fails, in the way the mark says;
                                                a pass is an error of ours: PyTorch has mended it, and the page is wrong

Each test has one of three marks: `torch_fails(by=...)`; `torch_holds`, where PyTorch's tool does it as well; or
`ours_alone(reason)`, where its side of the matter cannot be run.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import opsmith
from forks import python_c

HERE = Path(__file__).parent
MODULES = {"opsmith": "opsmith.cpp_extension", "torch": "torch.utils.cpp_extension"}
MARKS = {
    "torch_fails(by)": "PyTorch's tool fails this test, by this exception, or one of these",
    "torch_holds": "PyTorch's tool passes this test too",
    "ours_alone(reason)": "PyTorch's side cannot be run, for this reason",
}

# A Python module in plain C API: it compiles in a tenth of a second, where torch/extension.h takes ten.
MODULE = """#include <Python.h>
#include "value.h"
#define PASTE(name) PyInit_##name
#define INIT(name) PASTE(name)
#define TEXT(name) #name
#define NAME(name) TEXT(name)
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, NAME(TORCH_EXTENSION_NAME), "", -1, methods};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tool", choices=sorted(MODULES), default="opsmith", help="whose module tests/failure_modes asks")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Turn what a test says of PyTorch's tool into what pytest expects of it."""
    names = {mark.partition("(")[0] for mark in MARKS}
    for item in [item for item in items if item.path.parent == HERE]:
        # A parameter's own mark comes last, and counts before the function's.
        said = next((mark for mark in reversed(item.own_markers) if mark.name in names), None)
        if said is None:
            raise pytest.UsageError(
                f"{item.nodeid} does not say what PyTorch's tool does: give it one of {sorted(names)}"
            )
        if config.getoption("--tool", "opsmith") == "torch":
            # PyTorch's warnings are its own affair.
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if said.name == "torch_fails":
                item.add_marker(
                    pytest.mark.xfail(raises=said.kwargs["by"], strict=True, reason="PyTorch's tool fails here")
                )
            elif said.name == "ours_alone":
                item.add_marker(pytest.mark.skip(reason=said.args[0]))


@dataclass(frozen=True)
class Tool:
    """The module that is asked, in this process or in others; what others build lies below `folder`."""

    name: str
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def module(self) -> str:
        """The name to import it by."""
        return MODULES[self.name]

    @property
    def api(self) -> Any:
        """The module, in this process."""
        return importlib.import_module(self.module)

    def start(
        self, code: str, *, site: Path | None = None, is_imported: bool = True, **variables: str | None
    ) -> subprocess.Popen[str]:
        """Start a process in which `tool` is the module; `site` is a folder whose packages come first.

        A variable of None is not there.
        """
        process = subprocess.Popen(
            [sys.executable, "-c", self._program(code, is_imported)],
            env=self._environment(site, variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(
        self,
        code: str,
        *,
        site: Path | None = None,
        is_imported: bool = True,
        timeout_s: float = 120,
        **variables: str | None,
    ) -> str:
        """Run code in a process of its own, as `start` does, and return what it prints."""
        if site is not None:  # its packages may stand in for torch itself
            return output_of(self.start(code, site=site, is_imported=is_imported, **variables), timeout_s)
        try:
            done = python_c(
                self._program(code, is_imported), env=self._environment(site, variables), timeout_s=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process did not finish within {timeout_s:.0f} s") from None
        assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def _program(self, code: str, is_imported: bool) -> str:
        load = f"import {self.module} as tool" if is_imported else ""
        return f"import sys, torch\n{load}\n{code}"

    def _environment(self, site: Path | None, variables: Mapping[str, str | None]) -> dict[str, str]:
        ours = Path(opsmith.__file__).parents[1]
        path = [str(site)] if site else []
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # PyTorch looks for ninja there
            "PYTHONPATH": os.pathsep.join([*path, str(ours), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPSMITH_CACHE_DIR": str(self.folder / "store"),
            "OPSMITH_BRIDGE": "off",
            "TORCH_EXTENSIONS_DIR": str(self.folder),
            **variables,
        }
        return {name: value for name, value in env.items() if value is not None}


def output_of(process: subprocess.Popen[str], timeout_s: float = 120) -> str:
    """Return what a process prints; one that fails, dies or does not end fails the test."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the process did not finish within {timeout_s:.0f} s") from None
    assert process.returncode == 0, f"exit status {process.returncode}: {err}"
    return out.strip()


def members(session: int) -> dict[int, str]:
    """Return the living processes of a session with their commands."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                # A zombie is dead and only waits for its parent.
                if int(of) == session and state != "Z":
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
    return found


def wait_until(is_so: Callable[[], bool], timeout_s: float = 60) -> bool:
    """Wait for something, and return whether it came."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.02)
    return is_so()


@pytest.fixture
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    """Return the tool that is asked; whatever it started is ended after the test."""
    made = Tool(request.config.getoption("--tool", "opsmith"), tmp_path / "builds")
    made.folder.mkdir()
    if made.name == "torch":
        monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(made.folder))
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    yield made
    for process in made.started:
        for member in members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        process.kill()
        process.communicate()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Write the module's source, whose value() is 1, and return its path."""
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    (tmp_path / "module.cpp").write_text(MODULE)
    return tmp_path / "module.cpp"


@dataclass(frozen=True)
class TorchCopy:
    """A torch of links to the real one, whose version and some headers are its own."""

    site: Path

    @property
    def headers(self) -> Path:
        """The folder include/torch."""
        return self.site / "torch" / "include" / "torch"

    def write(self, patch: int, git_version: str) -> None:
        """Make it release 2.x.<patch>, in version.py and in headeronly/version.h."""
        for path, pattern, text in (
            (self.site / "torch" / "version.py", r"(__version__ = '\d+\.\d+\.)\d+", rf"\g<1>{patch}"),
            (self.site / "torch" / "version.py", r"(git_version = ')\w+", rf"\g<1>{git_version}"),
            (self.headers / "headeronly" / "version.h", r"(define TORCH_VERSION_PATCH )\d+", rf"\g<1>{patch}"),
        ):
            written, count = re.subn(pattern, text, path.read_text())
            assert count == 1, f"{path} has no {pattern}"
            path.unlink()  # a new file with a new time, as an installation makes it
            path.write_text(written)


@pytest.fixture
def torch_copy(tmp_path: Path) -> TorchCopy:
    """Return a torch that a test may change in place."""
    import torch

    real, made = Path(torch.__file__).parent, TorchCopy(tmp_path / "site")
    _link(real, made.site / "torch", {"version.py", "include", "__pycache__"})
    (made.site / "torch" / "version.py").write_bytes((real / "version.py").read_bytes())
    _link(real / "include", made.site / "torch" / "include", {"torch"})
    _link(real / "include" / "torch", made.headers, {"headeronly", "extension.h"})
    _link(real / "include" / "torch" / "headeronly", made.headers / "headeronly", {"version.h"})
    text = (real / "include" / "torch" / "headeronly" / "version.h").read_text()
    (made.headers / "headeronly" / "version.h").write_text(text)
    (made.headers / "extension.h").write_text("#pragma once\n")
    return made


def _link(real: Path, made: Path, but: set[str]) -> None:
    made.mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name not in but:
            (made / entry.name).symlink_to(entry)
