"""What all inputs of a task have in common comes with other numbers too: honest candidates that rely on it are accepted.

Each case is a reference, what makes its inputs, and a candidate: the bodies of `forward`, `get_inputs` and `forward`, or
those of functions with an example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from judging_kit.bodies import judgement_of
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.structure import structure_of, structures_of
from opsmith.judging.structured import with_structure

_ANGLES = "angles = torch.arange(12.0)[:, None] * torch.rand(8)\nangles = torch.cat([angles, angles], 1)\n"
_ROTATED = "q, cos, sin = given\na, b = q.chunk(2, -1)\n"
HONEST = {
    "halves of a rotary embedding": (
        f"{_ROTATED}return q * cos + torch.cat([-b, a], -1) * sin",
        f"{_ANGLES}return [torch.randn(4, 12, 16), angles.cos(), angles.sin()]",
        f"{_ROTATED}c, s = cos[:, :8], sin[:, :8]\nreturn torch.cat([a * c - b * s, b * c + a * s], -1)",
    ),
    "keys that heads share": (
        "q, k = given\nreturn (q @ k.transpose(-1, -2)).softmax(-1)",
        "return [torch.randn(2, 4, 10, 16), torch.randn(2, 1, 10, 16).repeat(1, 4, 1, 1)]",
        "q, k = given\nreturn torch.einsum('bhqd,bkd->bhqk', q, k[:, 0]).softmax(-1)",
    ),
    "a table that is always the same": (
        "x, table = given\nreturn x + table",
        "return [torch.randn(2, 12, 16), torch.arange(12.0)[:, None] * torch.ones(16) / 10]",
        "x, _ = given\nreturn x + torch.arange(12.0)[:, None] / 10",
    ),
    "bounds of which one is lower": (
        "x, least, most = given\nreturn torch.maximum(torch.minimum(x, most), least)",
        "least = torch.randn(40, 16)\nreturn [3 * torch.randn(40, 16), least, least + torch.rand(40, 16)]",
        "x, least, most = given\nreturn torch.minimum(torch.maximum(x, least), most)",
    ),
    "rows that fall": (
        "return torch.stack([given[0].amax(-1), given[0].amin(-1)])",
        "return [torch.randn(20, 50).sort(-1, descending=True).values]",
        "return torch.stack([given[0][:, 0], given[0][:, -1]])",
    ),
    "columns that rise": (
        "return given[0].amax(0) - given[0].amin(0)",
        "return [torch.randn(20, 50).sort(0).values]",
        "return given[0][-1] - given[0][0]",
    ),
    "soft labels of a segmentation": (
        "x, y = given\nreturn -(y * x.log_softmax(1)).sum(1)",
        "return [torch.randn(3, 5, 8, 8), torch.randn(3, 5, 8, 8).softmax(1)]",
        "x, y = given\nreturn x.logsumexp(1) - (x * y).sum(1)",
    ),
    "two of four are zero": (
        "w, x = given\nreturn x @ w.T",
        "w = torch.randn(24, 10, 4)\nkept = torch.rand(24, 10, 4).topk(2, -1).indices\n"
        "return [torch.zeros_like(w).scatter(2, kept, w.gather(2, kept)).view(24, 40), torch.randn(8, 40)]",
        "w, x = given\nplaces = (w.view(24, 10, 4) != 0).float().topk(2, -1).indices\n"
        "values, columns = w.view(24, 10, 4).gather(2, places), places + 4 * torch.arange(10)[:, None]\n"
        "return torch.einsum('bnk,nk->bn', x[:, columns.view(24, 20)], values.view(24, 20))",
    ),
    "a product with its own transpose": (
        "return torch.logdet(given[0])",
        "a = torch.randn(6, 10, 10)\nreturn [a @ a.mT / 10 + torch.eye(10)]",
        "return 2 * torch.linalg.cholesky(given[0]).diagonal(dim1=-2, dim2=-1).log().sum(-1)",
    ),
    "chances that are not zero": (
        "p, q = given\nreturn torch.nn.functional.kl_div(p.log(), q, reduction='none')",
        "return [torch.randn(16, 50).softmax(-1), torch.randn(16, 50).softmax(-1)]",
        "p, q = given\nreturn q * (q.log() - p.log())",
    ),
    "what only an assert can say": (
        "q, x = given\nassert torch.allclose(q @ q.mT, torch.eye(8), atol=1e-5)\nreturn torch.linalg.solve(q, x)",
        "return [torch.linalg.qr(torch.randn(6, 8, 8)).Q, torch.randn(6, 8, 5)]",
        "q, x = given\nreturn q.mT @ x",
    ),
    "half precision inside": (
        "x, w = given\nreturn (x.half() @ w.half()).float()",
        "return [torch.randn(20, 64), torch.randn(64, 24)]",
        "x, w = given\nreturn (x.half().float() @ w.half().float()).half().float()",
    ),
    "weights that are packed by their version": (
        "return given[0] * self.scale",
        "return [torch.randn(20, 64)]",
        "if kept.get('version') != self.scale._version:\n"
        "    kept.update(version=self.scale._version, scale=self.scale.clone())\n"
        "return given[0] * kept['scale']",
    ),
}


@pytest.mark.parametrize("case", HONEST.values(), ids=HONEST)
def test_who_relies_on_what_all_inputs_have_is_accepted(case: tuple[str, str, str], tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, *case)
    assert judgement.ok, str(judgement)


_CAMERA = torch.tensor([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
_POINTS = torch.cat([torch.randn(40, 2), torch.rand(40, 1) + 1], 1)


def task(a: Tensor, b: Tensor) -> Tensor:
    raise NotImplementedError


EXAMPLES: dict[str, tuple[Callable[..., Tensor], Sequence[Tensor], str]] = {
    "a camera": (
        lambda a, b: (b @ a.T)[:, :2] / (b @ a.T)[:, 2:],
        (_CAMERA, _POINTS),
        "return b[:, :2] / b[:, 2:] * torch.stack([a[0, 0], a[1, 1]]) + a[:2, 2]",
    ),
    "small matrices": (
        lambda a, b: torch.linalg.inv(a) * b,
        (torch.randn(32, 2, 2) + 3 * torch.eye(2), torch.ones(1)),
        "det = a[:, 0, 0] * a[:, 1, 1] - a[:, 0, 1] * a[:, 1, 0]\n"
        "    adj = torch.stack([a[:, 1, 1], -a[:, 0, 1], -a[:, 1, 0], a[:, 0, 0]], -1).view(-1, 2, 2)\n"
        "    return adj / det[:, None, None] * b",
    ),
    "a triangle": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        (torch.randn(8, 8).tril() + 4 * torch.eye(8), torch.randn(8, 5)),
        "x = torch.zeros_like(b)\n    for i in range(8):\n        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]\n    return x",
    ),
    "four thresholds": (
        lambda a, b: torch.bucketize(b, a),
        (torch.tensor([-1.0, -0.2, 0.4, 1.3]), torch.randn(200)),
        "return (b[:, None] > a).sum(1)",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_small_examples_keep_what_they_are(name: str, tmp_path: Path) -> None:
    function, example, body = EXAMPLES[name]

    def task(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)

    path = tmp_path / "candidate.py"
    path.write_text(f"import torch\ndef task(a, b):\n    {body}\n")
    judgement = judge(task, path, examples=[tuple(example)], threads=1, time=False, operator=False)
    assert judgement.ok, str(judgement)


def test_numbers_that_a_function_refuses_are_not_drawn(tmp_path: Path) -> None:
    def rotated(q: Tensor, x: Tensor) -> Tensor:
        assert torch.allclose(q @ q.mT, torch.eye(3), atol=1e-3)
        return torch.linalg.solve(q, x)

    path = tmp_path / "candidate.py"
    path.write_text("def rotated(q, x):\n    return q.mT @ x\n")
    example = (torch.linalg.qr(torch.randn(3, 3)).Q, torch.randn(3, 50))
    judgement = judge(rotated, path, examples=[example], threads=1, time=False, operator=False)
    assert judgement.ok, str(judgement)


STRUCTURED: dict[str, Callable[[], Tensor]] = {
    "equal columns": lambda: torch.randn(6, 8).repeat(1, 2),
    "rows that fall": lambda: torch.randn(6, 8).sort(-1, descending=True).values,
    "columns of the sum 1": lambda: torch.rand(6, 8).softmax(0),
    "zeros at places that change": lambda: torch.randn(40, 8).relu(),
    "positive numbers": lambda: torch.rand(6, 8) + 0.1,
    "a symmetric product": lambda: torch.randn(7, 11, dtype=torch.float32) @ torch.zeros(11, 7) + torch.ones(7, 7),
}


@pytest.mark.parametrize("make", STRUCTURED.values(), ids=STRUCTURED)
def test_other_numbers_get_the_structure_of_all_draws(make: Callable[[], Tensor]) -> None:
    draws = [make() for _ in range(3)]
    known = structure_of(draws)
    assert known
    other = torch.randn(draws[0].shape)
    other[0, 0] = 0.0
    (found,) = with_structure({"x": other}, {"x": draws[0]}, {"x": known}).values()
    again = structure_of([found, found])
    assert (again.sorted, again.unit) == (known.sorted, known.unit)
    assert [dim for dim, _ in again.repeated] == [dim for dim, _ in known.repeated]
    assert not (known.nearest and bool((found == 0).any()))
    assert not (known.has_zeros and bool((found[draws[0] == 0] != 0).any()))


def test_random_numbers_have_none() -> None:
    assert not structure_of([torch.randn(20, 30) for _ in range(3)])
    calls = structures_of(lambda seed: {"x": torch.randn(20, 30), "y": torch.randn(20, 30)}, 0)
    assert not any(calls.values())
    ordered: Any = structures_of(lambda seed: {"x": torch.rand(20, 30), "y": torch.rand(20, 30) + 1.5}, 0)
    assert ordered["x"].above == ("y",)
