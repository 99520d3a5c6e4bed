"""What each of two processes does in the tests of sharding rules; a job asserts what holds there."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["JOBS", "run"]

# Nobody has imported torch.distributed.tensor here yet: `rules_follow_the_first_dtensor` needs it so.
S0, S1, R = "S0", "S1", "R"


def t(*sizes: int) -> Tensor:
    return torch.randn(sizes, dtype=torch.float64)


def placement(word: str) -> Any:
    from torch.distributed.tensor import Partial, Replicate, Shard

    return {"R": Replicate(), "P": Partial("sum")}.get(word) or Shard(int(word[1:]))


def spread(mesh: DeviceMesh, tensors: Sequence[Tensor], words: Sequence[str]) -> list[Any]:
    """Return tensors distributed over the processes, as leaves."""
    from torch.distributed.tensor import distribute_tensor

    return [
        distribute_tensor(tensor.detach(), mesh, [placement(word)]).requires_grad_(tensor.requires_grad)
        for tensor, word in zip(tensors, words, strict=True)
    ]


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def words_of(tensors: Sequence[Any]) -> list[str]:
    """Return the placement of each tensor in one word."""
    words = []
    for tensor in tensors:
        (found,) = tensor.placements
        words.append("R" if found.is_replicate() else f"S{found.dim}" if found.is_shard() else "P")
    return words


def compare(
    mesh: DeviceMesh,
    operator: Any,
    whole: Sequence[Tensor],
    words: Sequence[str],
    outputs: Sequence[str],
    **kwargs: Any,
) -> None:
    """Hold an operator on distributed tensors to the same on whole ones: placements, values and gradients."""
    leaves = [tensor.requires_grad_(tensor.is_floating_point()) for tensor in whole]
    distributed = spread(mesh, leaves, words)
    found, expected = as_tuple(operator(*distributed, **kwargs)), as_tuple(operator(*leaves, **kwargs))
    assert words_of(found) == list(outputs), words_of(found)
    torch.testing.assert_close([tensor.full_tensor() for tensor in found], list(expected))
    total = sum((k * tensor.sin()).sum() for k, tensor in enumerate(found, 1))
    exact = sum((k * tensor.sin()).sum() for k, tensor in enumerate(expected, 1))
    total.backward()
    exact.backward()
    for tensor, leaf in zip(distributed, leaves, strict=True):
        torch.testing.assert_close(tensor.grad.full_tensor(), leaf.grad)


def rules_follow_the_first_dtensor(rank: int, mesh: DeviceMesh) -> None:
    from opsmith.ops.sigmoid import sigmoid
    from opsmith.runtime.sharding import ensure_sharding_rules

    sigmoid(t(4))
    assert "torch.distributed.tensor" not in sys.modules
    x = t(4, 2)
    (split,) = spread(mesh, [x], [S0])
    ensure_sharding_rules()
    assert words_of([sigmoid(split)]) == [S0]
    torch.testing.assert_close(sigmoid(split).full_tensor(), sigmoid(x))
    compare(mesh, sigmoid, [t(4, 2)], [S0], [S0])


def elementwise(rank: int, mesh: DeviceMesh) -> None:
    from opsmith.ops.add2 import add2
    from opsmith.ops.sigmoid import sigmoid

    compare(mesh, add2, [t(4, 6), t(4, 6)], [S1, S1], [S1])
    compare(mesh, sigmoid, [t(2, 3, 4)], ["S2"], ["S2"])
    compare(mesh, sigmoid, [t(4)], [R], [R])
    # One of them is moved.
    found = add2(*spread(mesh, [x := t(4, 6), y := t(4, 6)], [S1, R]))
    torch.testing.assert_close(found.full_tensor(), x + y)


def what_waits_for_a_sum(rank: int, mesh: DeviceMesh) -> None:
    from torch.distributed.tensor import DTensor

    from opsmith.ops.sigmoid import sigmoid

    part = torch.full((4,), float(rank + 1))
    pending = DTensor.from_local(part, mesh, [placement("P")], run_check=False)
    torch.testing.assert_close(sigmoid(pending).full_tensor(), torch.sigmoid(torch.full((4,), 3.0)))


def batch(rank: int, mesh: DeviceMesh) -> None:
    from opsmith.ops.lltm import lltm_cell, lltm_gates
    from rules_kit.operators import pooled, scaled_columns

    compare(mesh, lltm_gates, [t(4, 12), t(4, 4)], [S0, S0], [S0, S0])
    cell = [t(4, 2), t(4, 4), t(4, 4), t(12, 6), t(12)]
    compare(mesh, lltm_cell, cell, [S0, S0, S0, R, R], [S0, S0])
    compare(mesh, lltm_cell, [t(4, 2), t(4, 4), t(4, 4), t(12, 6), t(12)], [R] * 5, [R, R])
    compare(mesh, scaled_columns, [t(2, 4), t(4), t(3, 2)], [S1, S0, R], [S1, S0])
    levels = [t(4, 2, 3), t(4, 2, 5)]
    found = pooled(spread(mesh, levels, [S0, S0]), *spread(mesh, [weight := t(2)], [R]), 2)
    assert words_of([found]) == [S0]
    torch.testing.assert_close(found.full_tensor(), pooled(levels, weight, 2))


def gradients_of_what_all_samples_share(rank: int, mesh: DeviceMesh) -> None:
    from opsmith.ops.lltm import lltm_cell_backward
    from rules_kit.operators import rms_backward

    whole = [t(4, 4), t(4, 4), t(4, 2), t(4, 4), t(4, 4), t(12, 6), t(12), t(4, 12), t(4, 4)]
    found = lltm_cell_backward(*spread(mesh, whole, [S0, S0, S0, S0, S0, R, R, S0, S0]))
    assert words_of(found) == [S0, S0, S0, "P", "P"]
    torch.testing.assert_close([tensor.full_tensor() for tensor in found], list(lltm_cell_backward(*whole)))
    whole = [t(2, 4, 3), t(2, 4, 3), t(3)]
    found = rms_backward(*spread(mesh, whole, [S1, S1, R]))
    assert words_of(found) == [S1, "P"]
    torch.testing.assert_close([tensor.full_tensor() for tensor in found], list(rms_backward(*whole)))


def what_is_not_independent_is_gathered(rank: int, mesh: DeviceMesh) -> None:
    from rules_kit.operators import centred, mean_square, rms, running_sum

    compare(mesh, centred, [t(4, 3)], [S0], [R])
    (split,) = spread(mesh, [x := t(4, 6)], [S0])
    torch.testing.assert_close(running_sum(split, 0).full_tensor(), x.cumsum(0))
    compare(mesh, mean_square, [t(4, 3)], [S0], [R])
    compare(mesh, rms, [t(2, 4), t(4)], [S1, S0], [R])


def scalars_by_keyword(rank: int, mesh: DeviceMesh) -> None:
    from kit.gradients import cubic

    compare(mesh, cubic, [t(4, 3)], [S0], [S0], scale=3.0)


def a_rule_by_hand(rank: int, mesh: DeviceMesh) -> None:
    from rules_kit.operators import sharded_by_hand

    found = sharded_by_hand(*spread(mesh, [x := t(4, 6)], [S1]), 2.0)
    assert words_of([found]) == [S1]
    torch.testing.assert_close(found.full_tensor(), sharded_by_hand(x, 2.0))


def writes_are_refused(rank: int, mesh: DeviceMesh) -> None:
    from rules_kit.operators import add_to

    total, x = spread(mesh, [t(4), t(4)], [S0, S0])
    try:
        with torch.no_grad():
            add_to(total, x)
    except NotImplementedError as error:
        assert "add_to" in str(error) and "sharding strategy" in str(error), error
    else:
        raise AssertionError("a write to a DTensor was accepted")


JOBS: dict[str, Callable[[int, DeviceMesh], None]] = {
    job.__name__: job
    for job in (
        rules_follow_the_first_dtensor,  # the first, before anybody imports DTensor
        elementwise,
        what_waits_for_a_sum,
        batch,
        gradients_of_what_all_samples_share,
        what_is_not_independent_is_gathered,
        scalars_by_keyword,
        a_rule_by_hand,
        writes_are_refused,
    )
}


def run(rank: int, folder: str) -> None:
    """Run all jobs in one of two processes; write what went wrong in each to a file of its name."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store, timeout=timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (2,))
    for name, job in JOBS.items():
        try:
            job(rank, mesh)
            said = ""
        except Exception:
            said = traceback.format_exc()
        (Path(folder) / f"{name}.{rank}").write_text(said)
        dist.barrier()
    dist.destroy_process_group()
