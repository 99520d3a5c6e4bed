"""The Start pages of the documentation are true word for word: their files, commands, sessions and what these print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from compilers import find_compiler
from forks import python_c
from start_pages import PAGES, SESSION, Block, blocks, commands, compare, needs_gpu, run_page

# Commands that a test cannot run as they stand.
_ELSEWHERE = {
    "pip install -e .": "CI makes its environment so",
    'pip install -e ".[cuda]"': "downloads a CUDA compiler",
    "opsmith prove dist/*.whl": "downloads each release of torch",
}
# Its findings are this machine's, and a broken one is a finding too.
_OF_THE_MACHINE = {"opsmith doctor"}

pytestmark = pytest.mark.compile


def _session_in(folder: Path):
    def session(text: str) -> None:
        path = os.pathsep.join([str(folder), *sys.path])
        done = python_c(SESSION, [text], env={**os.environ, "PYTHONPATH": path}, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr

    return session


@pytest.mark.parametrize("page", ["first-operator", "gradient"])
def test_the_sessions_of_a_page_print_what_it_shows(page: str, tmp_path: Path):
    assert run_page(page, tmp_path, _session_in(tmp_path)) > 2


def _reader(user_python, folder: Path, *, has_gpu: bool):
    """Return the two functions that do what a reader does, in the reader's own environment."""
    programs = user_python.executable.parent
    for name in ("opsmith", "pip"):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{user_python.executable}" -m {name} "$@"\n')
        script.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {
        "PATH": os.pathsep.join([str(programs), env["PATH"]]),
        "OPSMITH_CACHE_DIR": str(user_python.store),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
    }

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600)

    def session(text: str) -> None:
        if has_gpu or not needs_gpu(text):
            done = run(str(user_python.executable), "-c", SESSION, text)
            assert done.returncode == 0, done.stdout + done.stderr

    def console(command: str, expected: str) -> None:
        if command in _ELSEWHERE or (needs_gpu(command) and not has_gpu):
            return
        if "--device cuda" in command:
            find_compiler("nvcc")
        done = run("bash", "-c", command)
        if command in _OF_THE_MACHINE:
            assert done.stdout.lstrip()[:1] in {"✓", "✗", "!"}
            return
        assert done.returncode == 0, done.stdout + done.stderr
        compare(command, expected, done.stdout)

    return session, console


_LONG = pytest.mark.nightly("a whole check and a benchmark; make test runs the page's sessions")


@pytest.mark.slow("checks, times and packages an operator as a reader does")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=_LONG) if page in ("first-operator", "gradient", "ship") else page for page in PAGES],
)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path, user_python):
    folder = tmp_path / "reader"
    folder.mkdir()
    assert run_page(page, folder, *_reader(user_python, folder, has_gpu=False)) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("page", [page for page in PAGES if any(needs_gpu(block.text) for block in blocks(page))])
def test_a_page_runs_on_a_gpu(page: str, tmp_path: Path, user_python):
    if torch.cuda.device_count() > 1:
        pytest.skip("the pages show a machine with one GPU")
    folder = tmp_path / "reader"
    folder.mkdir()
    assert run_page(page, folder, *_reader(user_python, folder, has_gpu=True)) > 0


def test_what_is_not_run_stands_on_a_page():
    typed = {command for page in PAGES for block in blocks(page) for command, _ in commands(block)}
    assert set(_ELSEWHERE) | _OF_THE_MACHINE <= typed


def test_a_difference_is_shown():
    compare("$ x", "a ... c\n", "a b c\n")
    with pytest.raises(AssertionError, match=r"(?s)Expected.*a c.*Got.*a b c"):
        compare("$ x", "a c\n", "a b c\n")


def test_a_build_needs_no_gpu():
    assert needs_gpu("opsmith check smooth --device cuda")
    assert not needs_gpu("opsmith build smooth --device cuda --arch 9.0")


def test_a_block_is_read_with_its_file():
    files = [block for block in blocks("first-operator") if block.title]
    assert [(block.language, block.title) for block in files] == [
        ("python", "smooth/__init__.py"),
        ("cpp", "smooth/lowpass.cpp"),
    ]
    assert isinstance(files[0], Block)
