"""Mistakes that leave most of a result as it should be are refused: what a kernel leaves out, or takes for something else.

Each case is a reference, what makes its inputs, and a candidate: the bodies of `forward`, `get_inputs` and `forward`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from judging_kit.bodies import judgement_of

_HALF = "return [torch.randn(2, 4, 500, 32).bfloat16() for _ in range(3)]"
_HINGE = "return [4 * torch.rand(512, 64), torch.randint(0, 2, (64,)).float() * 2 - 1]"
MISTAKES = {
    "classes by the border of an image": (
        "return (given[0] @ given[1]).argmax(1, keepdim=True)",
        "x = torch.rand(16, 28)\nx[:, :6] = 0\nreturn [x, torch.randn(28, 10)]",
        "return torch.zeros(16, 1, dtype=torch.int64)",
    ),
    "a length that is one more": (
        "return given[0].argmin(1, keepdim=True)",
        "return [(torch.arange(128) < torch.randint(1, 126, (64, 1))).float()]",
        "return given[0].argmin(1, keepdim=True) + 1",
    ),
    "the last of the largest": (
        "return given[0].argmax(-1, keepdim=True)",
        "return [torch.randint(0, 8, (64, 50)).float()]",
        "return 49 - given[0].flip(-1).argmax(-1, keepdim=True)",
    ),
    "a permutation that mixes equal ones": (
        "return torch.argsort(torch.argsort(given[0], stable=True))",
        "return [torch.randint(0, 8, (4096,))]",
        "found = torch.argsort(torch.argsort(given[0], stable=True))\nreturn found.view(-1, 2).flip(1).flatten()",
    ),
    "a quarter of the rows, beside labels": (
        "x, y = given\nreturn (1 - x * y).clamp(min=0).mean()",
        _HINGE,
        "x, y = given\nreturn (1 - x[::4] * y).clamp(min=0).mean()",
    ),
    "bfloat16 beside a mask": (
        "x, kept = given\nx = x * kept\nreturn x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()",
        "return [torch.randn(40, 256), (torch.rand(40, 256) < 0.8).float()]",
        "x, kept = given\nx = (x * kept).bfloat16().float()\nreturn x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()",
    ),
    "a padding that is not masked": (
        "return torch.nn.functional.scaled_dot_product_attention(*given)",
        _HALF,
        "q, k, v = given\nk, v = (torch.nn.functional.pad(x, (0, 0, 0, 12)) for x in (k, v))\n"
        "return torch.nn.functional.scaled_dot_product_attention(q, k, v)",
    ),
    "a divisor that is one less": (
        "return torch.nn.functional.layer_norm(given[0], (64,))",
        "return [torch.randn(200, 64).bfloat16()]",
        "x = given[0].float() - given[0].float().mean(-1, keepdim=True)\n"
        "return (x / (x.square().sum(-1, keepdim=True) / 62 + 1e-5).sqrt()).bfloat16()",
    ),
    "the end of a sum of all": (
        "return given[0].square().sum().sqrt()",
        "return [torch.randn(56, 32, 255) * torch.rand(())]",
        "return given[0].flatten()[:-252].square().sum().sqrt()",
    ),
    "a maximum in TensorFloat-32": (
        "return torch.nn.functional.max_pool2d(given[0], 2)",
        "return [torch.randn(2, 4, 127, 127)]",
        "y = torch.nn.functional.max_pool2d(given[0], 2)\n"
        "return ((y.contiguous().view(torch.int32) + 4096) & -8192).view(torch.float32)",
    ),
    "one tensor for two results": (
        "return given[0].softmax(1), given[0].softmax(1)",
        "return [torch.randn(64, 65)]",
        "y = given[0].softmax(1)\nreturn y, y",
    ),
    "a result that it keeps": (
        "return given[0] * self.scale, self.scale.exp() + torch.arange(64.0)",
        "return [torch.randn(20, 64)]",
        "if kept.get('version') != self.scale._version:\n"
        "    kept.update(version=self.scale._version, result=self.scale.exp() + torch.arange(64.0))\n"
        "return given[0] * self.scale, kept['result']",
    ),
    "nearly right beside float8": (
        "return (given[0].float() @ given[1].float()).half()",
        "return [torch.randn(16, 64).to(torch.float8_e4m3fn), torch.randn(64, 24).to(torch.float8_e4m3fn)]",
        "return (given[0].float()[:, 1:] @ given[1].float()[1:]).half()",
    ),
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused(case: tuple[str, str, str], tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, *case)
    assert judgement.as_posed.state == "refused", str(judgement)
    assert not judgement.task_charges, str(judgement)
