"""A whole benchmark on a GPU: every competitor, both clocks, the kernels alone, and the GPU's state."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.benchmark.competitors import Competitor
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.run import run_bench
from opsmith.subject.subject import subject_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow("a whole benchmark")]

EVERYBODY = ["opsmith", "eager", "compiled", "reduce-overhead", "max-autotune", "graph", "eager graph"]


def twenty_of(x: Float[Tensor, "21*N"]) -> Float[Tensor, "20*N"]:
    return torch.mul(x[: x.shape[0] // 21 * 20], 2)


def all_of(x: Tensor) -> Tensor:
    return torch.mul(x, 2)[: x.shape[0] // 21 * 20]


@pytest.mark.compile
def test_every_competitor_at_every_phase():
    from opsmith.ops.sigmoid import sigmoid

    report = opsmith.bench(sigmoid, device="cuda", sizes=[{"shape": 1 << 25}], dtypes=["float32"], seconds=240.0)
    assert report.ok, str(report)
    assert [t.competitor for t in report.timings if t.phase == "forward"] == EVERYBODY
    assert [t.competitor for t in report.timings if t.phase == "backward"] == EVERYBODY[:3]
    assert [t.competitor for t in report.timings if t.phase == "both"] == EVERYBODY
    for timing in report.timings:
        assert timing.error == "", f"{timing.competitor}, {timing.phase}: {timing.error}"
        assert timing.time is not None and timing.wall is not None
        assert timing.kernel_s is not None, f"{timing.competitor}, {timing.phase}"
        # Between events lies more than the kernels, if they find as much in the cache.
        assert timing.kernel_s < 1.2 * timing.time.middle
        # What is replayed has its memory from before.
        assert timing.peak_bytes or timing.competitor not in EVERYBODY[:2]
    (own,) = [t for t in report.timings if t.phase == "forward" and t.is_own]
    assert own.kernels == 1
    assert own.bound == "bandwidth"
    assert own.share is not None and 0.3 < own.share < 2
    assert own.peak_bytes == 4 << 25
    assert report.conditions["threads"] == torch.get_num_threads()


def test_five_percent_more_bytes_are_found():
    subject = subject_of(twenty_of, reference=twenty_of, devices=("cuda",))
    options = BenchOptions(
        phases=("forward",),
        against=("eager",),
        dtypes=("float32",),
        sizes=({"N": 1 << 22},),
        seconds=15.0,
    )
    report = run_bench(subject, "cuda", options, extra=(Competitor("slower", all_of),))
    verdicts = {timing.competitor: timing.verdict for timing in report.timings}
    assert verdicts["slower"] is not None and verdicts["slower"].kind == "faster", str(report)
    assert 1.03 < verdicts["slower"].ratio.middle < 1.07
    assert verdicts["eager"] is not None and verdicts["eager"].kind == "equal"


def test_an_operator_that_waits_for_the_gpu():
    def waits(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x * float(x.sum().item())

    report = opsmith.bench(
        waits, reference=waits, device="cuda", phases="forward", against="eager", sizes=[{"N": 1000}], seconds=20.0
    )
    assert all(timing.time is not None for timing in report.timings), str(report)
