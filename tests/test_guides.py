"""The guides are true: their files compile, their code runs, their sessions print what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from compilers import INCLUDE, compiled, find_compiler
from forks import python_c
from guide_pages import blocks_of, has_files, run_page, write_files
from opsmith.build.discover import discover
from opsmith.codegen.instantiate import instantiate

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
# The pages whose files, code and sessions `guide_pages` runs.
PAGES = (
    "definitions",
    "gradients",
    "worked-example",
    "cpu-kernels",
    "cuda-kernels",
    "native-kernels",
    "triton",
    "nvrtc",
    "cute",
    pytest.param(
        "from-cpp-extension", marks=pytest.mark.nightly("builds against torch's C++ headers; the drop-in's tests do")
    ),
    pytest.param("from-custom-op", marks=pytest.mark.slow("checks operators and runs opcheck")),
    pytest.param("from-triton", marks=pytest.mark.slow("checks operators")),
    pytest.param("composing", marks=pytest.mark.nightly("exports and compiles with Inductor, as tests/compose does")),
)
NAMES = {page if isinstance(page, str) else page.values[0] for page in PAGES}

_CHECK = (
    "import sys; from pathlib import Path; from guide_pages import check_page; check_page(*map(Path, sys.argv[1:]))"
)
_RUN = "import sys; from pathlib import Path; from guide_pages import run_page; run_page(*map(Path, sys.argv[1:]))"


def test_every_page_that_shows_files_runs():
    # The kernels of the guide to debugging are wrong on purpose; tests/test_kernel_guides.py runs its commands.
    assert {page.stem for page in GUIDES.glob("*.md") if has_files(page)} == NAMES | {"debugging"}


@pytest.mark.compile
@pytest.mark.parametrize("page", PAGES)
def test_a_guide_runs_from_top_to_bottom(page: str, tmp_path: Path):
    run(_RUN, page, tmp_path)


@pytest.mark.compile
@pytest.mark.nightly("checks every operator of the guides; they run for each change")
@pytest.mark.parametrize("page", sorted(NAMES))
def test_the_kernels_of_a_guide_are_right(page: str, tmp_path: Path):
    run(_CHECK, page, tmp_path)


def run(code: str, page: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    # torch.utils.cpp_extension builds there, and not in the home folder.
    env = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": path, "TORCH_EXTENSIONS_DIR": str(folder / "torch")}
    done = python_c(code, [str(GUIDES / f"{page}.md"), str(folder)], env=env, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "```pycon\n>>> 1 + 1\n3\n```\n",
        "```python\nassert 1 + 1 == 3\n```\n",
        "```pycon\n>>> int('x')\nTraceback (most recent call last):\n    ...\nValueError: another text\n```\n",
        "```console\n$ opsmith stub opsmith.ops.add2\nanother prototype\n```\n",
    ],
)
def test_a_guide_that_shows_something_else_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError):
        run_page(page, tmp_path)


@pytest.mark.compile
@pytest.mark.slow("compiles with nvcc")
@pytest.mark.parametrize(("page", "module"), [("worked-example", "neighbours"), ("from-triton", "rms")])
def test_the_cuda_kernels_of_a_guide_compile(page: str, module: str, tmp_path: Path):
    nvcc = find_compiler("nvcc")
    write_files(blocks_of(GUIDES / f"{page}.md"), tmp_path)
    (group,) = discover(str(tmp_path / f"{module}.py"))
    source = tmp_path / "instances.cu"
    source.write_text(instantiate([(definition, "cuda") for definition in group.definitions], f"{module}.cu"))
    flags = ["-std=c++17", "-arch=sm_90", "-Xcompiler", "-Wall,-Werror", f"-I{INCLUDE}", f"-I{tmp_path}", "-c"]
    compiled(source, nvcc, *flags)
