"""What each of two processes does in the tests of distributed training: each returns a word once all it asserts holds."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell, lltm_gates
from opsmith.ops.sigmoid import sigmoid

__all__ = ["JOBS"]

_BATCH, _INPUT, _STATE = 8, 2, 4


def _batches() -> Tensor:
    """Return two steps' inputs, the same in every process."""
    return torch.randn(2, _BATCH, _INPUT, generator=torch.Generator().manual_seed(3))


def _train(model: nn.Module, parameters: list[Tensor], take: slice) -> None:
    optimiser = torch.optim.SGD(parameters, lr=0.5)
    for inputs in _batches():
        optimiser.zero_grad()
        hidden, new_cell = model(inputs[take])
        (hidden.square().mean() + new_cell.mean()).backward()
        optimiser.step()


def _alone() -> tuple[LLTMCell, LLTMCell]:
    """Return an untrained cell and its copy, trained by one process on the whole batch."""
    torch.manual_seed(1)
    cell = LLTMCell(_INPUT, _STATE)
    trained = copy.deepcopy(cell)
    _train(trained, list(trained.parameters()), slice(None))
    return cell, trained


def _my_part(rank: int) -> slice:
    return slice(rank * _BATCH // 2, (rank + 1) * _BATCH // 2)


def ddp(rank: int, mesh: DeviceMesh) -> None:
    cell, expected = _alone()
    model = DistributedDataParallel(cell)
    _train(model, list(model.parameters()), _my_part(rank))
    torch.testing.assert_close(list(cell.parameters()), list(expected.parameters()))


def fsdp(rank: int, mesh: DeviceMesh) -> None:
    cell, expected = _alone()
    fully_shard(cell, mesh=mesh)
    assert all(isinstance(parameter, DTensor) for parameter in cell.parameters())
    _train(cell, list(cell.parameters()), _my_part(rank))
    found = [parameter.full_tensor() for parameter in cell.parameters()]
    torch.testing.assert_close(found, list(expected.parameters()))


def dtensor_batch(rank: int, mesh: DeviceMesh) -> None:
    """The batch is split, the parameters are whole: forward and backward as of the whole tensors."""
    for operator, shapes in ((add2, ((8, 4), (8, 4))), (sigmoid, ((8, 4),)), (lltm_gates, ((8, 12), (8, 4)))):
        whole = [torch.randn(shape).requires_grad_() for shape in shapes]
        spread = [distribute_tensor(tensor.detach(), mesh, [Shard(0)]).requires_grad_() for tensor in whole]
        found, expected = operator(*spread), operator.reference(*whole)
        for output, exact in zip(_tuple(found), _tuple(expected), strict=True):
            assert isinstance(output, DTensor)
            assert output.placements == (Shard(0),), f"{operator}: {output.placements}"
            torch.testing.assert_close(output.full_tensor(), exact)
        gradients = torch.autograd.grad(sum(t.sin().sum() for t in _tuple(found)), spread)
        exact_gradients = torch.autograd.grad(sum(t.sin().sum() for t in _tuple(expected)), whole)
        torch.testing.assert_close([gradient.full_tensor() for gradient in gradients], list(exact_gradients))


def dtensor_columns(rank: int, mesh: DeviceMesh) -> None:
    """Elementwise operators keep whatever dimension is split; the others gather what they cannot use."""
    x = torch.randn(4, 6)
    split = distribute_tensor(x, mesh, [Shard(1)])
    assert sigmoid(split).placements == (Shard(1),)
    torch.testing.assert_close(sigmoid(split).full_tensor(), torch.sigmoid(x))
    gates, cell = torch.randn(4, 12), torch.randn(4, 4)
    hidden, _ = lltm_gates(distribute_tensor(gates, mesh, [Shard(1)]), distribute_tensor(cell, mesh, [Replicate()]))
    torch.testing.assert_close(hidden.full_tensor(), lltm_gates.reference(gates, cell)[0])


def dtensor_partial(rank: int, mesh: DeviceMesh) -> None:
    """What waits for a sum is summed before a function that is not linear."""
    part = torch.full((3,), float(rank + 1))
    pending = DTensor.from_local(part, mesh, [Partial()], run_check=False)
    torch.testing.assert_close(sigmoid(pending).full_tensor(), torch.sigmoid(torch.full((3,), 3.0)))


def dtensor_module(rank: int, mesh: DeviceMesh) -> None:
    """A cell with whole parameters on a split batch: its parameters' gradients are those of the whole batch."""
    cell, _ = _alone()
    inputs = _batches()[0]
    twin = copy.deepcopy(cell)
    hidden, new_cell = twin(inputs)
    (hidden.sum() + new_cell.sin().sum()).backward()
    for name, parameter in list(cell.named_parameters()):
        replicated = distribute_tensor(parameter.detach(), mesh, [Replicate()])
        cell.register_parameter(name, nn.Parameter(replicated))
    state = tuple(distribute_tensor(torch.zeros(_BATCH, _STATE), mesh, [Shard(0)]) for _ in "hc")
    hidden, new_cell = cell(distribute_tensor(inputs, mesh, [Shard(0)]), state)
    assert hidden.placements == (Shard(0),)
    (hidden.sum() + new_cell.sin().sum()).backward()
    found = [parameter.grad.full_tensor() for parameter in cell.parameters()]
    torch.testing.assert_close(found, [parameter.grad for parameter in twin.parameters()])


def compiled_ddp(rank: int, mesh: DeviceMesh) -> None:
    cell, expected = _alone()
    model = torch.compile(DistributedDataParallel(cell), backend="aot_eager")
    _train(model, list(cell.parameters()), _my_part(rank))
    torch.testing.assert_close(list(cell.parameters()), list(expected.parameters()))


def _tuple(results: object) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


JOBS: dict[str, Callable[[int, DeviceMesh], None]] = {
    job.__name__: job
    for job in (ddp, fsdp, dtensor_batch, dtensor_columns, dtensor_partial, dtensor_module, compiled_ddp)
}


def main() -> None:
    """`python -m compose_kit.ranks RANK STORE JOB...`: run jobs; print each one's name and what went wrong, if it did."""
    rank, store = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", rank=rank, world_size=2, store=dist.FileStore(store, 2), timeout=timedelta(seconds=60)
    )
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    for name in sys.argv[3:]:
        try:
            JOBS[name](rank, mesh)
        except Exception as error:
            print(name, f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
            # The other process may wait for this one in a collective; only ending tells it.
            os._exit(1)
        print(name, flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
