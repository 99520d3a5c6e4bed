"""A finished build is found by the next process without starting a program, until a source of it changes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from forks import python_c

pytestmark = pytest.mark.compile

DEFINITION = """
import torch
from jaxtyping import Float
from torch import Tensor
import opsmith

@opsmith.op(cpu="scale.cpp", dtypes=[torch.float64])
def scale(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    return x * 3

@scale.backward()
def scale_backward(grad_out: Float[Tensor, "*n"], x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]: ...
"""
KERNEL = """#include <opsmith/kernel.h>

#include "factor.h"

template <class T>
void scale(opsmith::View<const T, 1> x, opsmith::View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(x(n) * FACTOR);
}
"""
# Programs are counted by Python's own audit events, which nothing that starts one can avoid.
RUN = """
import json, sys, time, warnings
warnings.simplefilter("error")
started = []
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
        started.append(event)
sys.addaudithook(watch)
import torch, scaled
started.clear()  # what `import torch` starts is not ours
x = torch.ones(2, dtype=torch.float64, requires_grad=True)
y = scaled.scale(x)
y.sum().backward()
print(json.dumps({"y": y.tolist(), "grad": x.grad.tolist(), "started": started}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scaled.py").write_text(DEFINITION)
    (tmp_path / "scale.cpp").write_text(KERNEL)
    (tmp_path / "factor.h").write_text("#define FACTOR 3\n")
    return tmp_path


def run(project: Path) -> dict[str, list[object]]:
    done = python_c(RUN, env=os.environ, cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow("processes that import torch, and two builds")
@pytest.mark.usefixtures("empty_store")
def test_the_second_process_starts_no_program_and_an_edit_is_built(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join([str(project), *filter(None, sys.path)]))
    first = run(project)
    assert first["y"] == [3, 3]
    assert first["started"], "the first process has to compile"

    second = run(project)
    assert second == {"y": [3, 3], "grad": [3, 3], "started": []}

    (project / "factor.h").write_text("#define FACTOR 5\n")
    edited_header = run(project)
    assert edited_header["y"] == [5, 5]
    assert edited_header["started"]

    (project / "scale.cpp").write_text(KERNEL.replace("* FACTOR", "* FACTOR + 1"))
    edited_kernel = run(project)
    assert edited_kernel["y"] == [6, 6]
    assert edited_kernel["started"]

    (project / "factor.h").write_text("#define FACTOR 3\n")
    (project / "scale.cpp").write_text(KERNEL)
    restored = run(project)
    assert (restored["y"], restored["started"]) == ([3, 3], [])


@pytest.mark.slow("processes that import torch")
def test_a_project_that_was_moved_finds_its_build(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join([str(project), *filter(None, sys.path)]))
    assert run(project)["y"] == [3, 3]
    moved = project / "elsewhere"
    moved.mkdir()
    for file in ("scaled.py", "scale.cpp", "factor.h"):
        (project / file).rename(moved / file)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(moved), *filter(None, sys.path)]))
    assert run(moved)["started"] == []
