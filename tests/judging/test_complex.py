"""Complex numbers are judged as pairs of real ones, as posed and as an operator; an error counts against both parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from opsmith.judging.api import judge
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x)


def convolution(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y))


REAL = (torch.randn(8, 64),)
COMPLEX = (torch.randn(8, 64, dtype=torch.complex64), torch.randn(8, 64, dtype=torch.complex64))
# Whose imaginary part is not zero where the reference's is: a half and a hundredth of a rounding of the modulus.
ROUNDED = """
def spectrum(x):
    found = torch.fft.fft(x)[..., : x.shape[-1] // 2 + 1]
    return torch.complex(found.real, found.imag + 3e-8 * found.real)
"""
GATHERED = """
def convolution(x, y):
    n = torch.arange(x.shape[-1], device=x.device)
    return (y[..., (n[:, None] - n[None, :]) % len(n)] @ x[..., None])[..., 0]
"""
LESS_DIGITS = """
def convolution(x, y):
    found = torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y))
    return torch.complex(found.real, found.imag * 1.001)
"""
OF_ROWS = """
def convolution(x, y):
    x = x if x.is_contiguous() else x.conj()
    return torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y))
"""


def judgement_of(folder: Path, task: Callable[..., torch.Tensor], text: str, **options: bool) -> Judgement:
    path = folder / "candidate.py"
    path.write_text(f"import torch\n{text}")
    example = REAL if task is spectrum else COMPLEX
    return judge(task, path, examples=[example], threads=1, time=False, **options)


@pytest.mark.parametrize(("task", "text"), [(spectrum, ROUNDED), (convolution, GATHERED)], ids=["real", "complex"])
def test_an_honest_candidate_is_accepted_as_an_operator(
    task: Callable[..., torch.Tensor], text: str, tmp_path: Path
) -> None:
    judgement = judgement_of(tmp_path, task, text)
    assert judgement.as_posed.state == judgement.as_operator.state == "accepted", str(judgement)
    told = judgement.as_operator.properties
    assert told["strides float32" if task is convolution else "sizes"] == "right", told


def test_an_imaginary_part_of_few_digits_is_refused(tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, convolution, LESS_DIGITS)
    assert judgement.as_posed.charges[0].refusal is Refusal.LOW_PRECISION, str(judgement)


def test_layouts_of_complex_tensors_are_tried(tmp_path: Path) -> None:
    judgement = judgement_of(tmp_path, convolution, OF_ROWS)
    assert judgement.as_posed.state == "accepted", str(judgement)
    assert [one.refusal for one in judgement.as_operator.charges] == [Refusal.WRONG_FOR_OTHER_LAYOUTS], str(judgement)
