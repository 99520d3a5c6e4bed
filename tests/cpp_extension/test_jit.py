"""`load` and `load_inline` of the drop-in: programs, and threads. Failures of PyTorch's are in tests/failure_modes."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from opsmith.cpp_extension import load

from .conftest import MODULE

pytestmark = pytest.mark.compile


def test_threads_build_at_once_and_do_not_meet(tmp_path: Path) -> None:
    results: dict[int, int] = {}

    def build(value: int) -> None:
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "value.h").write_text(f"#define VALUE {value}\n")
        (folder / "module.cpp").write_text(MODULE)
        results[value] = load(f"threads_{value}", [folder / "module.cpp"]).value()

    threads = [threading.Thread(target=build, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {value: value for value in range(4)}


def test_program_is_built_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text('#include <cstdio>\n#include <cstdlib>\nint main() { std::puts(std::getenv("WHO")); }\n')
    path = load("hello", str(source), is_python_module=False, is_standalone=True)
    assert subprocess.run([path], env={"WHO": "world"}, capture_output=True, text=True, check=True).stdout == "world\n"
    path = load("hello", source, is_python_module=False, is_standalone=True, build_directory=tmp_path / "b")
    assert path == str(tmp_path / "b" / "hello")
    assert os.access(path, os.X_OK)
