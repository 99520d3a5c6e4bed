"""The suite has every way in which judges were fooled, and what this machine can run of it is judged rightly."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from suite.row import CPU, CUDA, NATIVE, TRITON, Row
from suite.score import RIGHT, judge_row, part_of, verdict_of
from suite.tables import CHEATS, HONEST, ROWS
from suite.ways import WAYS

from opsmith.judging.candidate import Candidate
from opsmith.judging.signs import signs_of
from some import some

_TASKS = Path(__file__).parent / "tasks"
# What `make test` has is judged without its time, and soon has its verdict.
_FIRST = (
    "returns half precision",
    "keeps results by pointer",
    "has no weight",
    "rms norm into an output that is given",
)
_NATIVE_FIRST = ("keeps results by pointer in C++", "softmax in C++")


def rows(needs: str, first: tuple[str, ...]) -> list[str]:
    names = [name for name, row in ROWS.items() if row.needs == needs]
    return [*first, *(name for name in names if name not in first)]


def test_every_way_has_a_cheat():
    assert {number for row in CHEATS.values() for number in row.ways} == set(WAYS)
    assert len(CHEATS) >= 60 and len(HONEST) >= 60
    assert sum(row.needs == CUDA for row in CHEATS.values()) >= 30


def test_parts_are_counted_from_1():
    assert part_of("1/3") == (0, 3) and part_of("3/3") == (2, 3)
    for text in ("0/3", "4/3", "3"):
        with pytest.raises(ValueError):
            part_of(text)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_row_is_whole(row: Row):
    assert (_TASKS / row.task).exists()
    ast.parse(row.text)
    assert row.refused or not row.is_cheat or row.signs


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.signs], ids=lambda row: row.name)
def test_the_source_shows_the_signs(row: Row):
    found = signs_of(Candidate(Path("c.py"), "c.py", {"c.py": row.text.encode()}))
    assert set(row.signs) <= {sign.name for sign in found}


def assert_judged_rightly(name: str, folder: Path) -> None:
    options = {"time": False, "operator": False} if name in _FIRST else {}
    found = judge_row(ROWS[name], folder, seconds=30.0, **options)
    charges = [*found["task_charges"], *found["as_posed"]["charges"]]
    signs = [sign["name"] for sign in found["signs"]]
    assert verdict_of(ROWS[name], found["ok"], [charge["refusal"] for charge in charges], signs) == RIGHT, charges


@pytest.mark.parametrize("name", some(rows(CPU, _FIRST), 4, "judges each candidate", at_most=8))
def test_a_candidate_in_pytorch_is_judged_rightly(name, tmp_path):
    assert_judged_rightly(name, tmp_path)


@pytest.mark.compile
@pytest.mark.parametrize("name", some(rows(NATIVE, _NATIVE_FIRST), 0, "judges each candidate", at_most=2))
def test_a_candidate_in_cpp_is_judged_rightly(name, tmp_path):
    assert_judged_rightly(name, tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["keeps results by pointer in CUDA", "relu in CUDA", "relu in Triton"])
def test_a_candidate_on_a_gpu_is_judged_rightly(name, tmp_path):
    if ROWS[name].needs == TRITON:
        pytest.importorskip("triton")
    assert_judged_rightly(name, tmp_path)


def cuda_sources(row: Row) -> list[str]:
    """Return the CUDA of a candidate that is compiled without PyTorch's headers."""
    found = [node for node in ast.walk(ast.parse(row.text)) if isinstance(node, ast.keyword)]
    values = [node.value for node in found if node.arg == "cuda_sources"]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and "torch::" not in text]


_IN_CUDA = [name for name, row in ROWS.items() if cuda_sources(row)]


@pytest.mark.compile
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", some(_IN_CUDA, 1, "compiles each candidate with nvcc", at_most=2))
def test_a_candidate_in_cuda_compiles(name, tmp_path):
    (text,) = cuda_sources(ROWS[name])
    (tmp_path / "kernel.cu").write_text(text)
    command = ["nvcc", "-c", "-std=c++17", "-arch=sm_90", "kernel.cu", "-o", "kernel.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
