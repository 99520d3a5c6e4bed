"""Results in structures, numbers and complex ones are compared like plain tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opsmith.judging.api import judge
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement

_HEAD = "import torch\n\ndef task(x, z):\n"
_RIGHT = """    h = torch.tanh(x)
    spectrum = torch.complex(h * z.real, h * z.imag)
    return h, (None, [h.sum(-1), {"rows": x.shape[0], "more": spectrum.conj()}]), bool(x.shape[0] > 3)
"""
_WRONG = {
    "another complex number": (("spectrum.conj()", "spectrum.clone()"), Refusal.WRONG_VALUES),
    "pairs for complex numbers": (
        ("spectrum.conj()", "torch.view_as_real(spectrum.conj().resolve_conj())"),
        Refusal.WRONG_DTYPE,
    ),
    "another number": (("x.shape[0],", "x.shape[1],"), Refusal.WRONG_VALUES),
    "less digits": (("h * z.real", "(h * z.real).bfloat16().float()"), Refusal.LOW_PRECISION),
    "one result less": (("[h.sum(-1), ", "["), Refusal.WRONG_SHAPE),
}


def task(x: torch.Tensor, z: torch.Tensor) -> tuple[object, ...]:
    h = x.tanh()
    return h, (h.sum(-1), None, {"rows": len(x), "more": (z * h).conj()}), len(x) > 3


def judgement_of(folder: Path, text: str) -> Judgement:
    path = folder / "candidate.py"
    path.write_text(_HEAD + text)
    example = (torch.randn(12, 20), torch.randn(12, 20, dtype=torch.complex64))
    return judge(task, path, examples=[example], threads=1, time=False)


def test_structures_are_gone_through(tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, _RIGHT)
    assert judgement.ok, str(judgement)
    assert judgement.as_operator.state in ("accepted", "not judged"), str(judgement)


@pytest.mark.parametrize("name", list(_WRONG))
def test_what_is_wrong_in_a_structure_is_refused(name: str, tmp_path: Path) -> None:
    (old, new), refusal = _WRONG[name]
    assert old in _RIGHT
    judgement = judgement_of(tmp_path, _RIGHT.replace(old, new))
    assert judgement.as_posed.charges[0].refusal is refusal, str(judgement)
