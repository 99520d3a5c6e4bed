"""Operators and modules that hold them go to other processes, and many threads may call them at once."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from compose_kit.dataset import Sigmoids
from compose_kit.table import ALL, Case, each_case, each_operator
from torch import Tensor, nn
from torch.utils.data import DataLoader

from opsmith.ops.lltm import LLTM
from opsmith.ops.sigmoid import sigmoid
from some import some

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_an_operator_is_pickled_by_name(case: Case, protocol: int):
    data = pickle.dumps(case.operator, protocol)
    assert pickle.loads(data) is case.operator
    assert len(data) < 200
    assert copy.deepcopy(case.operator) is case.operator
    assert copy.copy(case.operator) is case.operator


class Holder(nn.Module):
    """A module that has an operator as an attribute, as it would have an activation function."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = sigmoid
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.linear(x))


def test_a_module_that_holds_an_operator_is_saved_and_copied():
    module, x = Holder(), torch.randn(2, 3)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    for other in (torch.load(buffer, weights_only=False), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(other(x), module(x))
        assert other.activation is sigmoid


def test_a_state_dict_loads_with_weights_only(tmp_path: Path):
    model, other = LLTM(2, 4), LLTM(2, 4)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    x = torch.randn(3, 5, 2)
    torch.testing.assert_close(other(x), model(x))


@pytest.mark.parametrize("method", some(["fork", "spawn", "forkserver"], 1, "processes that import torch"))
def test_a_data_loaders_workers_call_operators(method: str):
    dataset = Sigmoids(6)
    _ = sigmoid(torch.ones(1))  # loaded here already, as in most programs
    loader = DataLoader(dataset, batch_size=3, num_workers=1, multiprocessing_context=method)
    batches = list(loader)
    torch.testing.assert_close(torch.cat(batches), torch.stack([dataset[index] for index in range(6)]))


@each_case
def test_eight_threads(case: Case):
    expected = _gradients(case.expected_total, case.make())

    def work(_: int) -> list[tuple[Tensor, ...]]:
        return [_gradients(case.total, case.make()) for _ in range(10)]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(8)):
            for gradients in found:
                torch.testing.assert_close(gradients, expected)


@each_operator
def test_threads_share_a_graph(case: Case):
    """One thread makes the graph, others run the backward, all at once."""
    arguments = case.make()
    total = case.total(*arguments)
    expected = _gradients(case.expected_total, case.make())

    def work(_: int) -> tuple[Tensor, ...]:
        return torch.autograd.grad(total, arguments, retain_graph=True)

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(16)):
            torch.testing.assert_close(found, expected)


def _gradients(total: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total(*arguments), arguments, allow_unused=True, materialize_grads=True)


_FIRST_CALLS = """
import threading, torch
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell
from opsmith.ops.sigmoid import sigmoid

barrier, failures, done = threading.Barrier(8), [], []

def work(index):
    try:
        x = torch.randn(3, 4, requires_grad=True)
        cell = LLTMCell(4, 4)
        barrier.wait()
        y = sigmoid(add2(x, x)) if index % 2 else add2(sigmoid(x), x)
        hidden, new_cell = cell(y)
        (hidden * new_cell).sum().backward()
        assert x.grad.abs().sum() > 0 and cell.weight.grad is not None
        done.append(index)
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
print(len(done))
"""


@pytest.mark.parametrize("path", some(["wait", "auto", "off"], 1, "processes that import torch"))
def test_first_calls_from_many_threads_at_once(path: str):
    assert _run(_FIRST_CALLS, path) == "8"


@pytest.mark.slow("processes that import torch; tests/runtime/test_forks.py forks at worse times")
def test_a_fork_after_the_first_call():
    program = """
    import os, torch
    from opsmith.ops.lltm import LLTMCell
    torch.set_num_threads(1)
    cell = LLTMCell(2, 4)
    cell(torch.ones(1, 2))[0].sum()  # no backward yet: PyTorch's engine cannot be forked after it has run
    child = os.fork()
    hidden, _ = cell(torch.ones(1, 2))
    hidden.sum().backward()
    assert cell.bias.grad.abs().sum() > 0
    if child == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert _run(textwrap.dedent(program), "wait") == "7"


@pytest.mark.slow("processes that import torch")
def test_an_interpreter_that_ends_at_once_ends_well():
    """Nothing that runs in the background may hold or break the end of a short program."""
    program = "import torch; from opsmith.ops.add2 import add2; print(add2(torch.ones(1), torch.ones(1)).item())"
    for path in ("auto", "off", "wait"):
        assert _run(program, path) == "2.0"


def _run(program: str, path: str) -> str:
    """Run a program in a fresh interpreter; return what it prints."""
    env = {**os.environ, "OPSMITH_BRIDGE": path, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()
