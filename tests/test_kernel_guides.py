"""The guides about kernels are true: their kernels compile, run and print what the pages show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from compilers import find_compiler, run
from forks import python_c
from guide_pages import blocks_of, write_files

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"

_RUN = "import sys; from pathlib import Path; from guide_pages import run_page; run_page(*map(Path, sys.argv[1:]))"

pytestmark = pytest.mark.compile


def run_guide(page: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": path}
    done = python_c(_RUN, [str(GUIDES / f"{page}.md"), str(folder)], env=env, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["cpu-kernels", "cuda-kernels", "native-kernels"])
def test_a_guide_about_kernels_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    run_guide(page, tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("page", ["cuda-kernels", "native-kernels"])
def test_the_kernels_of_a_guide_run_on_a_gpu(page: str, tmp_path: Path) -> None:
    run_guide(page, tmp_path)


@pytest.mark.slow("compiles with nvcc, and with hipcc")
@pytest.mark.parametrize(("compiler", "arch"), [("nvcc", "9.0"), ("hipcc", "gfx90a")])
@pytest.mark.parametrize(("page", "module"), [("cuda-kernels", "gpu_kernels"), ("native-kernels", "native_ops")])
def test_the_kernels_of_a_guide_compile_without_a_gpu(
    page: str, module: str, compiler: str, arch: str, tmp_path: Path
) -> None:
    find_compiler(compiler)
    write_files(blocks_of(GUIDES / f"{page}.md"), tmp_path)
    run(sys.executable, "-m", "opsmith", "build", f"{module}.py", "--arch", arch, cwd=tmp_path)
