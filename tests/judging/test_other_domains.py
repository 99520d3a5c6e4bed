"""Numbers of other kinds leave a task's domain in ways that its results do not show: honest candidates are not held to them.

Each case is a reference, what makes its inputs, and a candidate: the bodies of `forward`, `get_inputs` and `forward`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from judging_kit.bodies import judgement_of

from opsmith.judging.refusals import Refusal

_BOXES = (
    "corner, size = 100 * torch.rand(60, 2), 10 + 40 * torch.rand(60, 2)\n"
    "boxes = torch.cat([corner, corner + size], 1)\nreturn [boxes, torch.rand(60)]"
)
_OVERLAPS = (
    "boxes, scores = given\n"
    "boxes = boxes[scores.argsort(descending=True, stable=True)]\n"
    "area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])\n"
    "sides = torch.minimum(boxes[:, None, 2:], boxes[:, 2:]) - torch.maximum(boxes[:, None, :2], boxes[:, :2])\n"
    "shared = sides.clamp(min=0).prod(-1)\n"
    "union = area[:, None] + area - shared\n"
)
_SCAN = (
    "x, decay = given\nh, found = torch.zeros(x.shape[0], x.shape[2]), []\n"
    "for t in range(x.shape[1]):\n    h = decay[:, t] * h + x[:, t]\n    found.append(h)\nreturn torch.stack(found, 1)"
)
HONEST = {
    "experts whose probabilities underflow": (
        "chances, experts = given[0].softmax(-1).topk(4, dim=-1)\n"
        "return chances / chances.sum(-1, keepdim=True), experts.int()",
        "return [torch.randn(60, 16)]",
        "scores, experts = given[0].topk(4, dim=-1)\nreturn scores.softmax(-1), experts.int()",
    ),
    "an index that is made by way of NaN": (
        "logits, u = given\nreturn (logits - torch.log(-torch.log(u))).argmax(-1)",
        "return [torch.randn(32, 100), 0.001 + 0.998 * torch.rand(32, 100)]",
        "logits, u = given\nreturn (logits.softmax(-1) / -torch.log(u)).argmax(-1)",
    ),
    "chances whose sum is not 1": (
        "p, u = given\nreturn ((p / p.sum(-1, keepdim=True)).cumsum(-1) < u[:, None]).sum(-1)",
        "return [torch.rand(32, 100), torch.rand(32)]",
        "p, u = given\nreturn torch.searchsorted(p.cumsum(-1), u[:, None] * p.sum(-1, keepdim=True))[:, 0]",
    ),
    "a threshold between 0 and 1 for each row": (
        "logits, least = given\np = logits.softmax(-1)\n"
        "return torch.where(p >= least[:, None] * p.amax(-1, keepdim=True), p, 0.0)",
        "return [3 * torch.randn(12, 50), 0.02 + 0.3 * torch.rand(12)]",
        "logits, least = given\ndistance = logits - logits.amax(-1, keepdim=True)\n"
        "return torch.where(distance >= least.log()[:, None], logits.softmax(-1), 0.0)",
    ),
    "corners of boxes": (
        f"{_OVERLAPS}return shared / union > 0.5",
        _BOXES,
        f"{_OVERLAPS}return shared > 0.5 * union",
    ),
    "a reference that says what it takes": (
        f"boxes, _ = given\nassert bool((boxes[:, 2:] >= boxes[:, :2]).all())\n{_OVERLAPS}return shared / union > 0.5",
        _BOXES,
        f"{_OVERLAPS}return shared > 0.5 * union",
    ),
    "a recurrence that explodes": (
        _SCAN,
        "return [torch.randn(2, 64, 8), torch.rand(2, 64, 1)]",
        "x, decay = given\nh = torch.zeros(x.shape[0], x.shape[2])\nfound = torch.empty_like(x)\n"
        "for begin in range(0, 64, 8):\n"
        "    d, part = decay[:, begin : begin + 8].squeeze(-1), x[:, begin : begin + 8]\n"
        "    ones = torch.tril(torch.ones(8, 8), -1)[:, :, None]\n"
        "    spans = torch.tril(torch.where(ones > 0, d[:, :, None, None], 1.0).squeeze(-1).cumprod(1))\n"
        "    found[:, begin : begin + 8] = spans @ part + d.cumprod(1)[..., None] * h[:, None]\n"
        "    h = found[:, begin + 7]\nreturn found",
    ),
    "a logarithm of a sum less a term": (
        "return torch.nn.functional.cross_entropy(*given, reduction='none')",
        "return [torch.randn(64, 30), torch.randint(0, 30, (64,))]",
        "x, target = given\nreturn x.logsumexp(-1) - x.gather(-1, target[:, None])[:, 0]",
    ),
    "a logarithm of softmax": (
        "y = given[0] - given[0].amax(-1, keepdim=True)\nreturn y - y.exp().sum(-1, keepdim=True).log()",
        "return [torch.randn(20, 30)]",
        "return given[0].log_softmax(-1)",
    ),
    "quotients of positive numbers": (
        "a, b = given\nreturn (a / b).sqrt()",
        "return [0.5 + torch.rand(40, 64), 0.5 + torch.rand(40, 64)]",
        "a, b = given\nreturn a.sqrt() / b.sqrt()",
    ),
    "masked scores": (
        "x, kept = given\nreturn x.masked_fill(~kept, -torch.inf)",
        "return [torch.randn(40, 64), torch.rand(40, 64) > 0.5]",
        "x, kept = given\nreturn torch.where(kept, x, -torch.inf)",
    ),
    "a step of an optimizer": (
        "p, m, v = given\nreturn p - 1e-3 * m / (v.sqrt() + 1e-8)",
        "return [torch.randn(40, 64), 0.1 * torch.randn(40, 64), 0.01 * torch.rand(40, 64)]",
        "p, m, v = given\nreturn torch.addcdiv(p, m, v.sqrt() + 1e-8, value=-1e-3)",
    ),
    "a product of float8": (
        "a, b, sa, sb = given\n"
        "a, b = (x.float().view(len(x), -1, 32) * s[..., None] for x, s in ((a, sa), (b, sb)))\n"
        "return (a.flatten(1) @ b.flatten(1).T).bfloat16()",
        "a, b = torch.randn(16, 128), torch.randn(24, 128)\n"
        "return [a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), 0.1 + torch.rand(16, 4), 0.1 + torch.rand(24, 4)]",
        "a, b, sa, sb = given\nfound = torch.zeros(16, 24)\nfor k in range(4):\n"
        "    part = slice(32 * k, 32 * k + 32)\n"
        "    found += (a[:, part].float() @ b[:, part].float().T) * sa[:, k, None] * sb[:, k]\n"
        "return found.bfloat16()",
    ),
    "float8 of short numbers": (
        "x = given[0].float()\nscale = x.abs().amax(-1, keepdim=True) / 448\n"
        "return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale",
        "return [torch.randn(10, 64).bfloat16()]",
        "x = given[0].float()\nmost = x.abs().amax(-1, keepdim=True)\n"
        "return (x * (448 / most)).clamp(-448, 448).to(torch.float8_e4m3fn), most * (1 / 448)",
    ),
    "four bits of short numbers": (
        "x = given[0].float().view(64, -1, 32)\nscale = x.abs().amax(-1, keepdim=True) / 7\n"
        "return (x / scale).round().to(torch.int8), scale",
        "return [torch.randn(64, 256).bfloat16()]",
        "x = given[0].float().view(64, -1, 32)\nmost = x.abs().amax(-1, keepdim=True)\n"
        "return (x * (7 / most)).round().to(torch.int8), most / 7",
    ),
    "blocks of float8": (
        "blocks = given[0].view(8, -1, 32)\nscales = blocks.abs().amax(-1) / 448\n"
        "return (blocks / scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn), scales",
        "return [torch.randn(8, 128)]",
        "blocks = given[0].view(8, -1, 32)\nmost = blocks.abs().amax(-1)\n"
        "return (blocks * (448 / most)[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn), most / 448",
    ),
}
WRONG = {
    "other experts": (
        *HONEST["experts whose probabilities underflow"][:2],
        "scores, experts = given[0].topk(4, dim=-1)\nreturn scores.softmax(-1), 0 * experts.int()",
        Refusal.WRONG_VALUES,
    ),
    "complex numbers without their sign": (
        "(x,) = given\nreturn torch.complex(x.abs(), 2 * x)",
        "return [torch.rand(40, 64)]",
        "(x,) = given\nreturn torch.complex(x, 2 * x)",
        Refusal.WRONG_FOR_OTHER_VALUES,
    ),
    "no step": (*HONEST["a step of an optimizer"][:2], "return given[0].clone()", Refusal.LOW_PRECISION),
    "masked scores that are finite": (
        *HONEST["masked scores"][:2],
        "x, kept = given\nreturn torch.where(kept, x, -1e30)",
        Refusal.WRONG_VALUES,
    ),
    "float32 in place of float8": (
        *HONEST["blocks of float8"][:2],
        "blocks = given[0].view(8, -1, 32)\nscales = blocks.abs().amax(-1) / 448\nreturn blocks / scales[..., None], scales",
        Refusal.WRONG_DTYPE,
    ),
    "float8 that is cut off": (
        *HONEST["blocks of float8"][:2],
        "blocks = given[0].view(8, -1, 32)\nscales = blocks.abs().amax(-1) / 448\n"
        "cut = ((blocks / scales[..., None]).view(torch.int32) & -(1 << 20)).view(torch.float32)\n"
        "return cut.to(torch.float8_e4m3fn), scales",
        Refusal.WRONG_VALUES,
    ),
}


@pytest.mark.parametrize("case", HONEST.values(), ids=HONEST)
def test_what_is_right_where_the_task_is_defined_is_accepted(case: tuple[str, str, str], tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, *case)
    assert judgement.ok, str(judgement)


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_is_wrong_there_is_refused(case: tuple[str, str, str, Refusal], tmp_path: Path) -> None:
    *bodies, refusal = case
    judgement = judgement_of(tmp_path, *bodies)
    assert [charge.refusal for charge in judgement.as_posed.charges] == [refusal], str(judgement)
    assert not judgement.task_charges
