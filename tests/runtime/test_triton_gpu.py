"""Triton kernels that were compiled ahead run on a GPU, give what Triton's own launch gives, and pass the check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

import opsmith
import softmax_rows
from forks import python_c

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.compile,
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
]


@pytest.fixture(scope="module", autouse=True)
def _paths() -> Iterator[None]:
    folders = [str(EXAMPLES), str(BENCHMARKS)]
    sys.path[:0] = folders
    yield
    for folder in folders:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def rows() -> ModuleType:
    return import_module("rows")


@pytest.fixture(scope="module")
def attention() -> ModuleType:
    return import_module("attention")


def _softmax_by_triton(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Launch the example's kernel as Triton does, with the configuration that opsmith takes."""
    from rows import CONFIGS
    from rows.kernels import softmax_rows

    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    config = next(config for config in CONFIGS if eval(str(config["when"]), {"N": x.shape[1]}))
    softmax_rows[(x.shape[0],)](
        x, scale, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=config["BLOCK"], num_warps=config["num_warps"]
    )
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 17, 256, 1000, 4096, 16384])
def test_results_are_those_of_triton_s_own_launch(rows: ModuleType, dtype: torch.dtype, columns: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(33, columns, device="cuda", dtype=dtype)
    found, expected = rows.softmax(x, 0.5), _softmax_by_triton(x, 0.5)
    # A kernel that was compiled for other multiples of 16 may add up in another order.
    torch.testing.assert_close(found, expected, rtol=1e-2 if dtype is not torch.float32 else 1e-5, atol=1e-6)
    exact = torch.softmax(x.double() * 0.5, 1)
    torch.testing.assert_close(found.double(), exact, rtol=2e-2 if dtype is not torch.float32 else 1e-4, atol=1e-6)


def test_strides_offsets_and_empty_tensors(rows: ModuleType) -> None:
    base = torch.randn(64, 515, device="cuda")
    for x in (
        base[:, 3:],  # rows that begin anywhere
        base[:, ::2],  # copied: the kernel does not take the last stride
        base[::3, :512],
        base.t(),
        base.expand(2, 64, 515)[1],
        base[:0],
        base[:1, :1],
    ):
        torch.testing.assert_close(rows.softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)


def test_a_row_too_long_for_every_configuration_is_refused(rows: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="no configuration of its kernel is for this call, N = 20000"):
        rows.softmax(torch.randn(2, 20_000, device="cuda"))


@pytest.mark.whole_gpu
def test_offsets_beyond_32_bits(rows: ModuleType) -> None:
    softmax_rows.with_offsets_beyond_32_bits(rows.softmax)


def test_threads_streams_and_graphs(rows: ModuleType) -> None:
    softmax_rows.on_threads_and_streams(rows.softmax)
    softmax_rows.captured_in_a_graph(rows.softmax)


def test_gradients_and_compile(rows: ModuleType) -> None:
    softmax_rows.differentiated_and_compiled(rows.softmax)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("m", "n", "d"), [(64, 64, 64), (257, 130, 40), (33, 65, 128), (1, 1, 16)])
def test_attention_and_its_gradient(attention: ModuleType, causal: bool, m: int, n: int, d: int) -> None:
    torch.manual_seed(0)
    shapes = (2, 3, m, d), (2, 3, n, d), (2, 3, n, d)
    inputs = [torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=True) for shape in shapes]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    y, (expected, _) = attention.attention(*inputs, causal), attention.attention.reference(*exact, causal)
    torch.testing.assert_close(y.double(), expected, rtol=5e-3, atol=5e-3)
    g = torch.randn_like(y)
    found = torch.autograd.grad(y, inputs, g)
    for one, other in zip(found, torch.autograd.grad(expected, exact, g.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=3e-2, atol=3e-2)


@pytest.mark.slow("checks operators")
@pytest.mark.parametrize("name", ["rows:softmax", "triton_twins:gates_triton", "triton_twins:focal_triton"])
def test_the_check_finds_nothing(name: str) -> None:
    module, _, operator = name.partition(":")
    opsmith.check(getattr(import_module(module), operator), devices="cuda", seconds=120).raise_if_failed()


def test_the_three_twins_compute_what_the_library_does() -> None:
    twins = import_module("triton_twins")
    from opsmith.ops.bias_act.operator import bias_activation
    from opsmith.ops.lltm.cell import lltm_gates
    from opsmith.ops.sigmoid_focal_loss.operator import focal_loss

    torch.manual_seed(0)
    gates, cell = torch.randn(16, 384, device="cuda"), torch.randn(16, 128, device="cuda")
    inputs, targets = torch.randn(1000, device="cuda"), torch.rand(1000, device="cuda")
    x, b = torch.randn(4, 5, 33, 7, device="cuda"), torch.randn(5, device="cuda")
    lrelu = ("lrelu", 0.2, 1.5)
    for operator, twin, arguments, others in (
        (lltm_gates, twins.gates_triton, (gates, cell), ()),
        (focal_loss, twins.focal_triton, (inputs, targets), ()),
        (bias_activation, twins.bias_triton, (x, b), lrelu),
    ):
        ours = [each.clone().requires_grad_() for each in arguments]
        theirs = [each.clone().requires_grad_() for each in arguments]
        one, two = operator(*ours, *others), twin(*theirs, *others)
        pairs = list(zip(one, two, strict=True)) if isinstance(one, tuple) else [(one, two)]
        for first, second in pairs:
            torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)
        weights = [torch.randn_like(first) for first, _ in pairs]
        for first, second in zip(
            torch.autograd.grad([first for first, _ in pairs], ours, weights),
            torch.autograd.grad([second for _, second in pairs], theirs, weights),
            strict=True,
        ):
            torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-4)


_WITHOUT_TRITON = """
import sys

sys.modules["triton"] = None  # importing it raises
import torch
from rows import softmax

x = torch.randn(5, 100, device="cuda")
torch.testing.assert_close(softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
print("ran")
"""


def test_a_library_built_before_runs_without_triton(tmp_path: Path) -> None:
    import shutil
    import subprocess

    package = Path(shutil.copytree(EXAMPLES / "rows", tmp_path / "rows"))
    command = [sys.executable, "-m", "opsmith", "build", "rows", "--arch", "native", "--output", str(package)]
    subprocess.run(command, cwd=tmp_path, check=True)
    empty = {"OPSMITH_CACHE_DIR": str(tmp_path / "store"), "CXX": "/nonexistent", "OPSMITH_BRIDGE": "off"}
    done = python_c(_WITHOUT_TRITON, cwd=tmp_path, env={**os.environ, **empty})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ran"
