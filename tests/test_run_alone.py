"""Tests that run alone, in a small project of their own: nothing runs beside them, and they follow one another."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

_CONFTEST = """
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.append({tests!r})

from run_alone import Turns, put_those_alone_last

turns = Turns(Path({root!r}))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    with turns.of(item, nextitem):
        return (yield)


def pytest_collection_modifyitems(items):
    put_those_alone_last(items)
"""

_TESTS = """
import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path({root!r})


@pytest.mark.parametrize(
    "number", [pytest.param(k, marks=[pytest.mark.all_cores] if k % 4 == 1 else []) for k in range(24)]
)
def test_takes_its_time(number):
    started = time.monotonic()
    time.sleep(0.02 + number % 3 * 0.02)
    (ROOT / f"{{number}}.json").write_text(json.dumps([number % 4 == 1, started, time.monotonic()]))


@pytest.mark.skip
@pytest.mark.all_cores
def test_is_skipped():
    pass
"""


@pytest.mark.slow("runs pytest with several workers on files of its own")
def test_nothing_runs_beside_them_and_one_wait_serves_for_all(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent)
    (tmp_path / "conftest.py").write_text(_CONFTEST.format(tests=tests, root=str(tmp_path)))
    (tmp_path / "test_times.py").write_text(_TESTS.format(root=str(tmp_path)))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  all_cores: alone\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3", "--dist", "worksteal"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = sorted((json.loads(path.read_text()) for path in tmp_path.glob("*.json")), key=lambda run: run[1])
    assert len(ran) == 24
    alone = [run for run in ran if run[0]]
    for one in alone:
        assert all(other is one or other[2] <= one[1] or one[2] <= other[1] for other in ran)
    beside_others = [run[0] for run in ran]
    changes = sum(a != b for a, b in pairwise(beside_others))
    assert changes < len(alone)  # twelve, if each of the six had come between others
