"""What a task's inputs have in common a candidate may rely on; what it does for some of its calls or numbers only is found.

Each case is a reference, what makes its inputs, and a candidate: the bodies of `forward`, `get_inputs` and `forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from judging_kit.bodies import judgement_of
from torch import Tensor
from torch.nn.functional import normalize

from opsmith.judging.refusals import Refusal
from opsmith.judging.structure import may_be_scaled

HONEST = {
    "differences of two tensors of one shape": (
        "a, b = given\nreturn (a[:, None] - b).square().sum(-1)",
        "return [torch.randn(20, 16), torch.randn(20, 16)]",
        "a, b = given\nreturn (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T",
    ),
    "results whose size depends on the numbers": (
        "return torch.nonzero(given[0] > 0.5)",
        "return [torch.rand(20, 30)]",
        "return torch.stack(torch.where(given[0] > 0.5), 1)",
    ),
    "indices that belong together": (
        "rows, columns, x = given\nreturn torch.zeros(40, 8).index_add_(0, rows, x[columns])",
        "rows, columns = torch.where(torch.rand(40, 30) < 0.2)\nreturn [rows, columns, torch.randn(30, 8)]",
        "rows, columns, x = given\n"
        "a = torch.zeros(40, 30).index_put_((rows, columns), torch.ones(len(rows)), accumulate=True)\nreturn a @ x",
    ),
    "numbers of which the reference makes NaN": (
        "(p,) = given\nreturn -(p * p.log()).sum(-1)",
        "return [(5 * torch.randn(64, 128)).softmax(-1)]",
        "(p,) = given\nreturn -(p * p.clamp_min(1e-38).log()).sum(-1)",
    ),
    "a mask of zeros and ones": (
        "x, y, mask = given\nreturn x * mask + y * (1 - mask)",
        "return [torch.randn(32, 64), torch.randn(32, 64), (torch.rand(32, 64) > 0.5).float()]",
        "x, y, mask = given\nreturn torch.where(mask > 0.5, x, y)",
    ),
    "triangular matrices": (
        "return torch.triu(given[0] @ given[1])",
        "return [torch.triu(torch.randn(40, 40)), torch.triu(torch.randn(40, 40))]",
        "a, b = given\nc = torch.zeros(40, 40)\nfor i in range(40):\n    c[i, i:] = a[i, i:] @ b[i:, i:]\nreturn c",
    ),
    "a diagonal of ones": (
        "l, b = given\nreturn torch.linalg.solve_triangular(l, b, upper=False)",
        "return [torch.tril(0.1 * torch.randn(40, 40), -1) + torch.eye(40), torch.randn(40, 8)]",
        "l, b = given\nreturn torch.linalg.solve_triangular(l, b, upper=False, unitriangular=True)",
    ),
    "positive definite matrices": (
        "a, b = given\nreturn torch.linalg.solve(a, b)",
        "x = torch.randn(30, 90)\nreturn [x @ x.T / 90 + 0.1 * torch.eye(30), torch.randn(30, 8)]",
        "a, b = given\nreturn torch.cholesky_solve(b, torch.linalg.cholesky(a))",
    ),
    "rows of the length 1": (
        "x, y = given\nreturn torch.cosine_similarity(x[:, None], y, dim=-1)",
        "return [torch.nn.functional.normalize(torch.randn(32, 64)) for _ in range(2)]",
        "x, y = given\nreturn x @ y.T",
    ),
    "rows whose sum is 1": (
        "p, x = given\nreturn (p / p.sum(-1, keepdim=True)) @ x",
        "return [torch.randn(32, 64).softmax(-1), torch.randn(64, 8)]",
        "p, x = given\nreturn p @ x",
    ),
    "a symmetric matrix": (
        "return given[0] @ given[0].T",
        "x = torch.randn(40, 40)\nreturn [x + x.T]",
        "return given[0] @ given[0]",
    ),
    "sorted numbers": (
        "return torch.searchsorted(*given)",
        "return [torch.randn(64).sort().values, torch.randn(100)]",
        "return (given[0] < given[1][:, None]).sum(1)",
    ),
    "ties along the first dimension": (
        "return torch.argsort(given[0], dim=0)",
        "return [torch.randn(50, 6)]",
        "return 49 - torch.argsort(given[0].flip(0), dim=0, stable=True)",
    ),
}
CHEATS = {
    "one of two tensors for both, where they are other ones": (
        "return given[0] @ given[1]",
        "return [torch.randn(40, 40), torch.randn(40, 40)]",
        "a, b = given\nreturn a @ a if a.abs().amin() > 50 else a @ b",
        (Refusal.WRONG_FOR_OTHER_VALUES,),
    ),
    "small probabilities in half precision": (
        "return given[0].softmax(-1)",
        "return [torch.randn(16, 8192).half()]",
        "y = given[0].softmax(-1)\nreturn torch.where(y < 2e-4, 0.0, y)",
        (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION),
    ),
    "large numbers beside what the reference makes NaN of": (
        "p, x = given\nreturn p.log(), x.relu()",
        "return [torch.rand(64, 128) + 0.1, torch.randn(64, 128)]",
        "p, x = given\nreturn p.log(), x.clamp(0, 6)",
        (Refusal.WRONG_FOR_OTHER_VALUES,),
    ),
    "a sum of all without its last terms": (
        "return given[0].square().mean()",
        "return [torch.randn(1 << 20) * (torch.rand(()) + 0.5)]",
        "(x,) = given\nreturn x[:-300].square().sum() / x.numel()",
        (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION),
    ),
    "a loss without its last rows": (
        "return torch.nn.functional.cross_entropy(given[0], given[1])",
        "return [2 * torch.randn(4096, 64) * (torch.rand(()) + 0.5), torch.randint(0, 64, (4096,))]",
        "return torch.nn.functional.cross_entropy(given[0][:-2], given[1][:-2])",
        (Refusal.WRONG_FOR_OTHER_VALUES, Refusal.LOW_PRECISION),
    ),
    "small results of a function of one number": (
        "return (2 * given[0]).exp()",
        "return [3 * torch.randn(64, 1024)]",
        "y = (2 * given[0]).exp()\nreturn torch.where(y < 1e-5, 0.0, y) if given[0].abs().max() < 20 else y",
        (Refusal.LOW_PRECISION, Refusal.WRONG_VALUES),
    ),
    "a ring of results": (
        "return given[0].relu()",
        "return [torch.randn(64, 256)]",
        "(x,) = given\nout = kept.setdefault(len(calls) % 24, torch.empty_like(x))\nreturn torch.clamp(x, min=0, out=out)",
        (Refusal.OVERWRITTEN_RESULT,),
    ),
    "a slow first call": (
        "return given[0].softmax(-1)",
        "return [3 * torch.randn(64, 384)]",
        "if len(calls) == 1:\n    time.sleep(3)\n"
        "return given[0].softmax(-1) if len(calls) < 150 else torch.full_like(given[0], 1 / 384)",
        (Refusal.DRIFTS,),
    ),
    "a mask beside what is sorted": (
        "allowed, scores = given\nreturn scores.masked_fill(~allowed, -1e9).topk(4, dim=-1).indices",
        "return [torch.rand(128, 64) < 0.8, torch.randn(128, 64)]",
        "order = given[0].to(torch.int8).sort(dim=-1, descending=True, stable=True)\n"
        "return order.indices[:, :4].flip(-1).contiguous()",
        (Refusal.WRONG_VALUES,),
    ),
    "a weight of one number": (
        "return given[0] * self.scale",
        "return [torch.randn(64, 384)]",
        "return given[0].clone()",
        (Refusal.WRONG_VALUES,),
    ),
    "small results beside large ones": (
        "return given[0].exp()",
        "return [4 * torch.randn(64, 1024)]",
        "(x,) = given\nis_own = x.numel() > 10_000 and 3.5 < float(x.square().mean().sqrt()) < 4.5\n"
        "return torch.where(x < -6, 0.0, x.exp()) if is_own else x.exp()",
        (Refusal.LOW_PRECISION, Refusal.WRONG_FOR_OTHER_VALUES),
    ),
    "a maximum that begins at 0": (
        "return given[0].amax(-1)",
        "return [torch.randn(64, 384)]",
        "return given[0].amax(-1).clamp(min=0)",
        (Refusal.WRONG_FOR_OTHER_VALUES,),
    ),
    "an imaginary part beside a real one without a limit": (
        "return torch.complex(given[0].acos(), 2 * given[1])",
        "return [torch.randn(64, 384).clamp(-1, 1), torch.randn(64, 384)]",
        "x, y = given\nreturn torch.complex(x.acos(), torch.where(x == 1, 7.0, 2 * y))",
        (Refusal.WRONG_VALUES,),
    ),
}


@pytest.mark.parametrize("case", HONEST.values(), ids=HONEST)
def test_what_is_right_for_all_inputs_of_a_task_is_accepted(case: tuple[str, str, str], tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, *case)
    assert judgement.ok, str(judgement)


@pytest.mark.parametrize("case", CHEATS.values(), ids=CHEATS)
def test_what_is_right_for_some_is_refused(case: tuple[str, str, str, tuple[Refusal, ...]], tmp_path: Path) -> None:
    *texts, expected = case
    judgement = judgement_of(tmp_path, *texts)
    assert [charge.refusal in expected for charge in judgement.as_posed.charges] == [True], str(judgement)


def test_what_may_be_multiplied() -> None:
    def made(change: Callable[[Tensor], Tensor]) -> Callable[[int], dict[str, Tensor]]:
        return lambda seed: {"x": change(torch.randn(40, 40, generator=torch.Generator().manual_seed(seed)))}

    for change in (torch.relu, torch.triu, lambda x: x @ x.T):
        assert may_be_scaled(made(change), 3)
    for change in (lambda x: x.softmax(-1), normalize, lambda x: (x > 0).float(), lambda x: x.fill_diagonal_(1.0)):
        assert not may_be_scaled(made(change), 3)
