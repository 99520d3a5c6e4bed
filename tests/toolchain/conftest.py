"""What the toolchain's tests share: an empty machine, on which programs are put as scripts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opsmith._env import VARIABLES
from opsmith.toolchain import ProbeCache

GCC = """Using built-in specs.
COLLECT_GCC=g++
Target: x86_64-linux-gnu
Thread model: posix
gcc version {version} (Debian {version}-14)
"""
CLANG = """Debian clang version {version}
Target: x86_64-pc-linux-gnu
Thread model: posix
InstalledDir: {folder}
"""


class Machine:
    """A folder on PATH with programs that write down each start and print what they are told to."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self._log = folder / "started"

    @property
    def started(self) -> list[str]:
        """The command lines that were started, with the program's name alone."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    def put(self, path: str | Path, output: str = "", *, status: int = 0, then: str = "") -> Path:
        """Make a program; a relative path is one on PATH."""
        program = self.bin / path
        program.parent.mkdir(parents=True, exist_ok=True)
        # Built-in commands of the shell only: there is nothing else on this PATH.
        program.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"{program.name} $*\" >> '{self._log}'\n{then}\n"
            f"printf '%s' '{output}'\nexit {status}\n"
        )
        program.chmod(0o755)
        return program

    def put_gcc(self, path: str | Path = "g++", version: str = "12.2.0") -> Path:
        return self.put(path, GCC.format(version=version))

    def put_clang(self, path: str | Path = "clang++", version: str = "14.0.6") -> Path:
        return self.put(path, CLANG.format(version=version, folder=self.bin))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(machine.bin))
    return machine


@pytest.fixture
def probes() -> ProbeCache:
    return ProbeCache()


@pytest.fixture
def touch() -> Callable[[Path], None]:
    """Give a file another time, as an upgrade of its package does."""

    def do(path: Path) -> None:
        os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000))

    return do
