"""Locks and processes: who is killed, fails or races never spoils it for another. (#1, #2, #3, #10, #17)

Further: 200 kills and 16 racers in tests/store/test_builds_that_die.py, NFS in tests/store/test_intact.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from opsmith.toolchain import find_ninja

from .conftest import MODULE, Tool, members, wait_until

pytestmark = pytest.mark.compile

# Forks a process for each piece of code, with torch imported; when all have the tool, they go at once.
RACE = """
import json, os
ready, go = os.pipe(), os.pipe()
for number, code in enumerate({codes!r}):
    if os.fork() == 0:
        sys.stdout = open(f"{folder}/racer-{{number}}", "w")
        import {module} as tool
        os.write(ready[1], b"r")
        os.close(go[1])
        os.read(go[0], 1)
        exec(code)
        sys.stdout.flush()
        os._exit(0)
for _ in {codes!r}:
    os.read(ready[0], 1)
os.close(go[1])
failed = [status for status in (os.wait()[1] for _ in {codes!r}) if status]
assert not failed, failed
print(json.dumps([open(f"{folder}/racer-{{number}}").read().strip() for number, _ in enumerate({codes!r})]))
"""

# It answers questions as ever, and takes a minute for a file while `slow` exists.
SLOW = """#!/bin/sh
case " $* " in *" -c "*) if [ -e "{folder}/slow" ]; then touch "{folder}/mark"; sleep 61; exit 1; fi;; esac
exec g++ "$@"
"""

# The first to compile a file waits a second, and fails.
UNLUCKY = """#!/bin/sh
case " $* " in *" -c "*) if mkdir "{folder}/mark" 2>/dev/null; then sleep 1; echo "no luck" >&2; exit 1; fi;; esac
exec g++ "$@"
"""


@pytest.fixture
def compiler(tmp_path: Path):
    """Return a function that writes a compiler."""

    def write(text: str) -> str:
        path = tmp_path / "strange-c++"
        path.write_text(text.format(folder=tmp_path))
        path.chmod(0o755)
        return str(path)

    return write


def race(tool: Tool, folder: Path, codes: list[str], **variables: str) -> list[str]:
    """Run pieces of code at once, each in a process of its own, and return what each prints."""
    program = RACE.format(codes=codes, folder=folder, module=tool.module)
    printed: list[str] = json.loads(tool.run(program, is_imported=False, **variables))
    return printed


@pytest.fixture
def killed(tool: Tool, module: Path, tmp_path: Path, compiler) -> subprocess.Popen[str]:
    """Kill a load (-9) in the middle of its build, and return its process."""
    (tmp_path / "slow").touch()
    process = tool.start(f"tool.load('killed', [{str(module)!r}])", CXX=compiler(SLOW))
    assert wait_until((tmp_path / "mark").exists), "the compiler was not started"
    process.kill()
    process.wait()
    (tmp_path / "slow").unlink()
    return process


@pytest.mark.torch_fails(by=AssertionError)
def test_1_build_that_is_killed_holds_no_other_up(tool: Tool, module: Path, killed, tmp_path: Path) -> None:
    """PyTorch's lock is a file that nobody removes: the next load waits for ever, and says nothing."""
    code = f"print(tool.load('killed', [{str(module)!r}]).value())"
    assert tool.run(code, timeout_s=25, CXX=str(tmp_path / "strange-c++")) == "1"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.torch_fails(by=AssertionError)
def test_1_compilers_of_a_build_that_is_killed_end_with_it(killed) -> None:
    """PyTorch's go on without a parent, for as long as they need."""
    assert wait_until(lambda: not members(killed.pid), 5), f"left behind: {members(killed.pid)}"


@pytest.mark.slow("processes that compile torch/extension.h")
@pytest.mark.torch_fails(by=AssertionError)
def test_2_processes_with_one_name_and_different_texts_get_their_own(tool: Tool, tmp_path: Path) -> None:
    """PyTorch writes the text before it takes the lock: all get the module of whoever wrote last."""
    texts = [MODULE.replace('#include "value.h"', f"#define VALUE {value}") for value in range(4)]
    ask = "print(tool.load_inline('meeting', [{!r}], no_implicit_headers=True).value())"
    assert race(tool, tmp_path, [ask.format(text) for text in texts]) == ["0", "1", "2", "3"]


@pytest.mark.slow("processes that wait for compilers")
@pytest.mark.torch_fails(by=AssertionError)
@pytest.mark.parametrize("is_edit", [False, True], ids=["first build", "edited source"])
def test_3_one_build_that_fails_is_no_others_failure(
    tool: Tool, module: Path, tmp_path: Path, compiler, is_edit: bool
) -> None:
    """Who waited for PyTorch's lock imports what is there: ImportError, or the library from before the edit."""
    unlucky = compiler(UNLUCKY)
    ask = f"tool.load('unlucky', [{str(module)!r}]).value()"
    if is_edit:
        (tmp_path / "mark").mkdir()
        assert tool.run(f"print({ask})", CXX=unlucky) == "1"
        (tmp_path / "mark").rmdir()
        module.write_text(MODULE.replace("(VALUE)", "(VALUE + 1)"))
    code = f"try:\n    print({ask})\nexcept RuntimeError:\n    print('failed')"
    value = "2" if is_edit else "1"
    assert sorted(race(tool, tmp_path, [code] * 3, CXX=unlucky)) == [value, value, "failed"]


SETUP = """
from setuptools import setup
from {module} import BuildExtension, CppExtension
setup(
    name="several",
    ext_modules=[CppExtension(f"part{{i}}", [f"{{i}}/module.cpp"]) for i in range({count})],
    cmdclass={{"build_ext": BuildExtension}},
)
"""


@pytest.mark.slow("compiles three extensions")
@pytest.mark.torch_fails(by=AssertionError)
def test_10_extensions_of_one_setup_are_built_at_once_and_do_not_meet(tool: Tool, tmp_path: Path) -> None:
    """PyTorch's `build_ext -j` writes the build.ninja of all of them into one folder."""
    count = 4
    for index in range(count):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "value.h").write_text(f"#define VALUE {index}\n")
        (tmp_path / str(index) / "module.cpp").write_text(MODULE)
    # A ninja that takes its time, as on a busy machine: what happens does not hang on who is faster.
    slow = tmp_path / "bin" / "ninja"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {find_ninja()} "$@"\n')
    slow.chmod(0o755)
    (tmp_path / "setup.py").write_text(SETUP.format(module=tool.module, count=count))
    code = f"import os, runpy; os.chdir({str(tmp_path)!r}); sys.argv = ['setup.py', 'build_ext', '--inplace', '-j4']"
    tool.run(f"{code}; runpy.run_path('setup.py')", PATH=f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    use = f"sys.path.insert(0, {str(tmp_path)!r}); print(*(__import__(f'part{{i}}').value() for i in range({count})))"
    assert tool.run(use) == "0 1 2 3"


@pytest.mark.slow("compiles in processes")
@pytest.mark.torch_fails(by=AssertionError)
def test_17_finished_library_is_never_written_to(tool: Tool, module: Path) -> None:
    """PyTorch's linker writes in the place that others load from: over NFS they read half of it, or ESTALE."""
    code = f"print(tool.load('place', [{str(module)!r}]).__file__)"
    first = Path(tool.run(code))
    before = first.read_bytes(), first.stat().st_ino
    module.write_text(MODULE.replace("(VALUE)", "(VALUE + 1)"))
    tool.run(code)
    assert (first.read_bytes(), first.stat().st_ino) == before
