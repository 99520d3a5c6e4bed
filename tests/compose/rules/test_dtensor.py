"""Operators on DTensors: what may be sharded stays so, the rest is gathered; values and gradients are as of whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kit import gradients
from rules_kit import operators, ranks
from torch import multiprocessing

from opsmith.ops.lltm import lltm_cell, lltm_cell_backward
from opsmith.ops.sigmoid import sigmoid
from opsmith.runtime.sharding import find_shardings

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without torch.distributed"),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run every job in one pair of processes, which take seconds to start; return the folder of what they said."""
    for operator in (sigmoid, lltm_cell, gradients.cubic):
        operator.load()  # built here, so that the processes do not wait for one another's compiler
    folder = tmp_path_factory.mktemp("pair")
    multiprocessing.spawn(ranks.run, (str(folder),), nprocs=2)
    return folder


@pytest.mark.parametrize("job", list(ranks.JOBS))
@pytest.mark.slow("two processes that import torch, for each rule")
def test_two_processes(job: str, said: Path):
    for rank in (0, 1):
        assert (said / f"{job}.{rank}").read_text() == ""


def test_the_ways_that_a_definition_allows():
    x = torch.empty(2, 3, 4)
    everywhere = ([None], [None])
    assert find_shardings(sigmoid.definition, [x]) == [everywhere, ([0], [0]), ([1], [1]), ([2], [2])]
    assert find_shardings(operators.rms.definition, [x, x[0, 0]]) == [
        ([None], [None, None]),
        ([0], [0, None]),
        ([1], [1, None]),
    ]
    assert find_shardings(operators.centred.definition, [x]) == [everywhere]
    assert find_shardings(operators.mean_square_backward.definition, [x[0, 0, 0], x]) == [([None], [None, None])]
    levels = [x, x]
    assert find_shardings(operators.pooled.definition, [levels, x[0, 0]])[1:] == [([0], [0, 0, None])]
    cell = [torch.empty(sizes) for sizes in ((3, 2), (3, 4), (3, 4), (12, 6), (12,), (3, 12), (3, 4))]
    ways = find_shardings(lltm_cell_backward.definition, [cell[1], cell[1], *cell])
    assert ways[1:] == [([0, 0, 0, "sum", "sum"], [0, 0, 0, 0, 0, None, None, 0, 0])]
