"""The guides about kernels are true on GPUs and in debuggers; tests/test_guides.py runs them on the CPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compilers import find_compiler, run
from forks import python_c
from guide_pages import blocks_of, write_files
from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_toolchain, parse_rocm_archs

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs" / "guides"

_RUN = "import sys; from pathlib import Path; from guide_pages import run_page; run_page(*map(Path, sys.argv[1:]))"

pytestmark = pytest.mark.compile


def run_guide(page: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": path}
    done = python_c(_RUN, [str(GUIDES / f"{page}.md"), str(folder)], env=env, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("page", ["cuda-kernels", "native-kernels"])
def test_the_kernels_of_a_guide_run_on_a_gpu(page: str, tmp_path: Path) -> None:
    run_guide(page, tmp_path)


each_gpu_guide = pytest.mark.parametrize(
    ("page", "module"), [("cuda-kernels", "gpu_kernels"), ("native-kernels", "native_ops")]
)


@pytest.mark.nightly("compiles with nvcc, as tests/ops/test_compile.py does")
@each_gpu_guide
def test_the_kernels_of_a_guide_compile_without_a_gpu(page: str, module: str, tmp_path: Path) -> None:
    find_compiler("nvcc")
    write_files(blocks_of(GUIDES / f"{page}.md"), tmp_path)
    run(sys.executable, "-m", "opsmith", "build", f"{module}.py", "--arch", "9.0", cwd=tmp_path)


@pytest.mark.nightly("AMD machine code, which tests/ops/test_compile.py makes of the library's kernels")
@each_gpu_guide
def test_the_kernels_of_a_guide_compile_for_amd(
    page: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIP_PLATFORM", "amd")  # Debian's hipcc compiles for NVIDIA where it finds an nvcc
    try:
        toolchain = find_toolchain(cuda=False, rocm=True)
    except ToolchainError as error:
        pytest.skip(f"no hipcc here: {error}")
    write_files(blocks_of(GUIDES / f"{page}.md"), tmp_path)
    (group,) = discover(str(tmp_path / f"{module}.py"))
    extension = assemble(group.module, group.definitions, ("cuda",))
    folder = tmp_path / "made"
    folder.mkdir()
    run_plan(plan_extension(extension, toolchain, Target(rocm_archs=parse_rocm_archs("gfx90a"))), folder)


@pytest.mark.nightly("checks under AddressSanitizer, and builds a dozen times; its parts have tests of their own")
def test_the_commands_of_the_guide_to_debugging_print_what_it_shows(tmp_path: Path) -> None:
    blocks = blocks_of(GUIDES / "debugging.md")
    write_files(blocks, tmp_path)
    programs = [str(command_named_opsmith(tmp_path / "bin")), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(programs), "PYTHONPATH": os.pathsep.join(sys.path)}
    # A store of its own, which has not seen what the page edits. The bridge would be built there.
    env |= {"OPSMITH_CACHE_DIR": str(tmp_path / "store"), "OPSMITH_BRIDGE": "off"}
    shown = 0
    for block in blocks:
        if block.language != "console":
            continue
        for command, lines in commands_of(block.text):
            # What needs a GPU, or a program of the reader's, is only named.
            if re.search(r"train\.py|cuobjdump", command):
                assert not lines, command
                continue
            if command.startswith("gdb"):
                if shutil.which("gdb") is None:
                    continue
                with_symbols = 'cpu=opsmith.view("picked.cpp", flags=["-g", "-O0"])'
                definition = tmp_path / "picked.py"
                definition.write_text(definition.read_text().replace('cpu="picked.cpp"', with_symbols))
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            # gdb names the thread where there are several.
            printed = (done.stdout + done.stderr).replace("Program received", 'Thread 1 "python" received')
            assert lines or done.returncode == 0, f"{command}\n{printed}"
            for line in lines:
                assert line.strip() in printed, f"{command}\n{line}\n--- printed:\n{printed}"
                shown += 1
    assert shown > 10


def command_named_opsmith(folder: Path) -> Path:
    """Write the command `opsmith` of the package that is tested into a folder, and return that."""
    folder.mkdir()
    (folder / "opsmith").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opsmith "$@"\n')
    (folder / "opsmith").chmod(0o755)
    return folder


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def test_the_code_of_the_story_is_that_of_its_steps() -> None:
    sources = [path.read_text() for path in (ROOT / "examples" / "faster").iterdir() if path.suffix in {".cpp", ".h"}]
    shown = [block.text for block in blocks_of(GUIDES / "faster.md") if block.language == "cpp"]
    assert len(shown) == 7
    for text in shown:
        assert any(text in source for source in sources), text


def test_the_table_of_the_story_has_a_row_for_each_step() -> None:
    rows = re.findall(r"^\| (\d)\. `(\w+)` \|", (GUIDES / "faster.md").read_text(), re.MULTILINE)
    kernels = sorted(path.stem for path in (ROOT / "examples" / "faster").glob("*.cpp"))
    assert [f"{number}_{name}" for number, name in rows] == kernels
    assert len(kernels) == 6
