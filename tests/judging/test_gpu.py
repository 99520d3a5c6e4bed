"""On a GPU a candidate is kept apart and judged as on the CPU, and work on other streams is seen."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import RIGHT, judged, normalize
from judging_kit.cells import cell_of
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.cell import Cell
from opsmith.judging.gpu_area import new_gpu_area
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement

pytestmark = pytest.mark.gpu

LARGE = [(torch.linspace(-2, 2, 1 << 24).reshape(4096, 4096), torch.linspace(-1.5, 2, 4096))]

CHEATS = {
    "on a stream that nobody waits for": (
        """
import torch
side = torch.cuda.Stream()
def normalize(x, w):
    y = torch.empty_like(x)
    with torch.cuda.stream(side):
        torch.cuda._sleep(4_000_000)
        y.copy_(torch.softmax(x * w, dim=-1))
    return y
""",
        {Refusal.OTHER_STREAM},
    ),
    "a graph that reads the first inputs": (
        """
import torch
kept = []
def normalize(x, w):
    if not kept:
        for _ in range(3):
            torch.softmax(x * w, dim=-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.softmax(x * w, dim=-1)
        kept.append((graph, y))
    graph, y = kept[0]
    graph.replay()
    return y.clone()
""",
        {Refusal.STALE_POINTERS, Refusal.CACHED_RESULT},
    ),
    "a result by pointer": (
        """
import torch
kept = {}
def normalize(x, w):
    if x.data_ptr() not in kept:
        kept[x.data_ptr()] = torch.softmax(x * w, dim=-1)
    return kept[x.data_ptr()].clone()
""",
        {Refusal.CACHED_RESULT},
    ),
    "a result on the CPU": ("def normalize(x, w): return (x * w).softmax(-1).cpu()", {Refusal.LAZY_RESULT}),
    "half precision": (
        "def normalize(x, w): return (x.half() * w.half()).softmax(-1).float()",
        {Refusal.LOW_PRECISION},
    ),
}
PROPER = {
    "a side stream that is waited for": """
import torch
side = torch.cuda.Stream()
def normalize(x, w):
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        y = torch.softmax(x * w, dim=-1)
    current.wait_stream(side)
    y.record_stream(current)
    return y
""",
    "a graph with inputs of its own": """
import torch
kept = {}
def normalize(x, w):
    key = (x.shape, w.shape, x.dtype)
    if key not in kept:
        a, b = x.clone(), w.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.softmax(a * b, dim=-1)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.softmax(a * b, dim=-1)
        kept[key] = (graph, a, b, y)
    graph, a, b, y = kept[key]
    a.copy_(x)
    b.copy_(w)
    graph.replay()
    return y.clone()
""",
}


def on_gpu(folder: Path, text: str, **options: object) -> Judgement:
    return judged(folder, text, device="cuda", call_seconds=20.0, load_seconds=60.0, memory_gib=16.0, **options)


@pytest.mark.parametrize("name", list(CHEATS))
def test_a_cheat_is_refused(name: str, tmp_path: Path) -> None:
    text, refusals = CHEATS[name]
    judgement = on_gpu(tmp_path, text)
    assert set(judgement.refusals) <= refusals
    assert judgement.refusals


@pytest.mark.parametrize("name", ["a graph that reads the first inputs", "a result by pointer", "half precision"])
def test_a_cheat_is_refused_where_tensors_are_large(name: str, tmp_path: Path) -> None:
    text, refusals = CHEATS[name]
    judgement = on_gpu(tmp_path, text, examples=LARGE)
    assert set(judgement.refusals) <= refusals
    assert judgement.refusals


@pytest.mark.parametrize("name", list(PROPER))
def test_streams_and_graphs_are_accepted_where_they_are_ordered(name: str, tmp_path: Path) -> None:
    assert on_gpu(tmp_path, PROPER[name], time=True, seconds=40.0).as_posed.charges == ()


def test_the_walls_stand_beside_a_gpu(tmp_path: Path) -> None:
    judgement = on_gpu(tmp_path, RIGHT, operator=True, seconds=60.0)
    assert judgement.ok
    assert judgement.as_operator.state != "not judged"
    assert any("seccomp" in wall for wall in judgement.walls.in_force)


# What honest candidates and their libraries do beside computing.
_STARTS = {
    "a process that uses the GPU": """
subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1, device='cuda').item()"], check=True)
""",
    "a compiler that looks which GPU there is": """
folder = os.environ["TMPDIR"]
source, library = os.path.join(folder, "one.cu"), os.path.join(folder, "one.so")
with open(source, "w") as file:
    file.write('extern "C" __global__ void one() {}')
subprocess.run(["nvcc", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-o", library, source], check=True)
""",
    "PyTorch's compiler": "assert torch.equal(torch.compile(lambda x: x * 2 + 1)(x), x * 2 + 1)",
    "a profile": """
with torch.profiler.profile() as profile:
    (x * 2).sum().item()
assert any("sum" in one.key for one in profile.key_averages())
""",
    "more memory than there is": """
try:
    torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
""",
}


@pytest.mark.parametrize("name", list(_STARTS))
def test_what_honest_candidates_start_works(name: str) -> None:
    body = textwrap.indent(_STARTS[name].strip(), "    ")
    text = f"import os, subprocess, sys, torch\ndef f(x):\n{body}\n    return x + 1\n"
    limits = {"load_s": 120.0, "call_s": 120.0, "memory_bytes": 16 << 30, "gpu_bytes": 8 << 30}
    with cell_of(text, "cuda", **limits) as cell:
        cell.load([[torch.arange(3.0, device="cuda")]])
        done = cell.run([0])
        assert done.error is None, (done.error, cell.walls)
        ((result,),) = cell.give([0])
        assert result is not None
        assert result.tensor is not None
        assert result.tensor.tolist() == [1, 2, 3]


def test_large_inputs_take_what_bench_says(tmp_path: Path) -> None:
    """The reference as its own candidate: both sides run the same kernels on inputs as cold."""
    path = tmp_path / "candidate.py"
    path.write_text(RIGHT)
    (speed,) = judge(normalize, path, examples=LARGE, device="cuda", operator=False, seconds=60.0).speeds
    assert speed.ratio == pytest.approx(1.0, abs=0.05)


def test_a_part_of_the_cache_that_is_set_aside_is_refused(tmp_path: Path) -> None:
    text = """
import ctypes, re, torch
path = re.search(r"\\S*/libcudart\\S*", open("/proc/self/maps").read())[0]
runtime = ctypes.CDLL(path)
def normalize(x, w):
    runtime.cudaDeviceSetLimit(6, ctypes.c_size_t(1 << 20))
    return torch.softmax(x * w, dim=-1)
"""
    assert on_gpu(tmp_path, text).refusals == (Refusal.CACHE_CONTROL,)


_TAKES = {
    "by PyTorch's allocator": "torch.empty(3 << 30, dtype=torch.uint8, device='cuda')",
    "by CUDA itself": "runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(3 << 30))",
}


@pytest.mark.whole_gpu  # what others take meanwhile counts as the candidate's
@pytest.mark.parametrize("name", list(_TAKES))
def test_memory_of_the_gpu_is_bounded(name: str, tmp_path: Path) -> None:
    text = f"""
import ctypes, re, torch
path = re.search(r"\\S*/libcudart\\S*", open("/proc/self/maps").read())[0]
runtime = ctypes.CDLL(path)
kept = []
def normalize(x, w):
    if not kept:
        kept.append({_TAKES[name]})
    return torch.softmax(x * w, dim=-1)
"""
    assert on_gpu(tmp_path, text, gpu_memory_gib=1.0).refusals == (Refusal.OVER_MEMORY,)
    assert on_gpu(tmp_path, text, gpu_memory_gib=8.0).as_posed.charges == ()


# More than what goes through at a time.
_ELEMENTS = (400 << 20) // 4
_LIMITS = {"call_s": 20.0, "gpu_bytes": 8 << 30, "memory_bytes": 16 << 30}


@pytest.fixture
def _shares_memory() -> None:
    area = new_gpu_area()
    if area is None:
        pytest.skip("the driver of this machine shares no memory of a GPU between processes")
    area.close()


def _is_shared(cell: Cell) -> bool:
    return cell._areas.staging(1 << 30) is not None


@pytest.mark.usefixtures("_shares_memory")
def test_large_tensors_go_through_memory_of_the_gpu() -> None:
    x = torch.randn(_ELEMENTS // 1000, 1000, device="cuda")
    with cell_of("def f(x): return x * 2, x.t(), x[:3].sum()\n", "cuda", **_LIMITS) as cell:
        for keep in (False, True):
            x.mul_(0.5)
            cell.load([[x], [x + 1]], keep=keep)
            assert cell.run([1, 0]).error is None
            assert cell.changed_inputs() == ""
            for call, right in zip(cell.give([0, 1]), (x + 1, x), strict=True):
                found = [one.tensor for one in call if one is not None]
                assert all(torch.equal(a, b) for a, b in zip(found, (right * 2, right.t()), strict=False))  # type: ignore[arg-type]
                assert len(found) == 3
        assert _is_shared(cell)
        assert cell.process.shared_bytes < 16 << 20


@pytest.mark.usefixtures("_shares_memory")
@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x[-2] += 1", "inputs"),
        ("x[0] += 1", "inputs"),
        ("torch.as_strided(x, (1,), (1,), x.storage_offset() + x.numel()).fill_(1)", "margins"),
        ("y = x + 1", ""),
    ],
)
def test_what_changes_in_large_inputs_is_seen(line: str, changed: str) -> None:
    with cell_of(f"import torch\ndef f(x):\n    {line}\n    return x[:3].clone()\n", "cuda", **_LIMITS) as cell:
        cell.load([[torch.randn(_ELEMENTS, device="cuda")]])
        assert cell.run([0]).error is None
        assert cell.changed_inputs() == changed
        assert _is_shared(cell)


_SCRIBBLES = """
import gc, threading, time, torch

def write(passage, side):
    while True:
        with torch.cuda.stream(side):
            passage.bytes.fill_(0x5B)
        time.sleep(2e-3)

threads = []
def f(x):
    if not threads:
        (passage,) = [one for one in gc.get_objects() if type(one).__name__ == "GpuArea"]
        threads.append(threading.Thread(target=write, args=(passage, torch.cuda.Stream()), daemon=True))
        threads[0].start()
    return x * 2
"""


@pytest.mark.usefixtures("_shares_memory")
def test_who_writes_to_that_memory_reaches_nothing_of_the_judge() -> None:
    """A thread has kernels that fill it again and again: results are spoilt, and nothing else is."""
    x = torch.randn(_ELEMENTS, device="cuda")
    before = x.clone()
    with cell_of(_SCRIBBLES, "cuda", **_LIMITS) as cell:
        cell.load([[x]])
        assert cell.run([0]).error is None
        cell.changed_inputs()
        ((result,),) = cell.give([0])
        assert result is not None
        found = result.tensor
        assert found is not None
        kept = found.clone()
        cell.load([[torch.zeros_like(x)]])
    # What has arrived stays as it is, and so does what the judge has sent and holds results against.
    assert torch.equal(found.view(torch.uint8), kept.view(torch.uint8))
    assert torch.equal(x, before)


def test_a_reference_that_asserts_about_its_data_leaves_the_gpu_to_the_judge(tmp_path: Path) -> None:
    """Other numbers than chances stop a GPU for the process that has its reference compute with them."""

    def loss(p: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy(p, y, reduction="none")

    path = tmp_path / "candidate.py"
    path.write_text(
        "import torch\n"
        "def loss(p, y):\n"
        "    return -(y * p.log().clamp(min=-100) + (1 - y) * (1 - p).log().clamp(min=-100))\n"
    )
    examples = [(torch.rand(64, 96).mul(0.9).add(0.05), torch.rand(64, 96))]
    judgement = judge(loss, path, examples=examples, device="cuda", time=False, operator=False)
    assert judgement.failure == ""
    assert judgement.task_charges == ()
    torch.zeros(1, device="cuda").cpu()
