"""The classifier learns, and the reference learns the same."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from opsmith.demo.digits import load_digits
from opsmith.demo.training import ReferenceLLTM, largest_gap, train, variants
from opsmith.ops.lltm import LLTM

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")


def test_the_split_is_fixed_even_and_whole():
    digits, again = load_digits(0), load_digits(0)
    assert len(digits.train_labels) + len(digits.test_labels) == 1797
    assert digits.test_images.equal(again.test_images) and digits.test_labels.equal(again.test_labels)
    counts = digits.test_labels.bincount()
    shares = counts / (counts + digits.train_labels.bincount())
    assert len(counts) == 10 and (shares - 0.25).abs().max() < 0.005
    assert digits.train_images.shape[1:] == (8, 8)
    assert digits.train_images.min() == 0 and digits.train_images.max() == 1


def test_the_kernels_are_trained_first_and_the_reference_last():
    assert list(variants(["cpu", "cuda"]).values()) == [(LLTM, "cpu"), (LLTM, "cuda"), (ReferenceLLTM, "cpu")]


@pytest.mark.slow("trains a network twice")
@pytest.mark.compile
def test_kernels_and_reference_learn_alike():
    digits = load_digits(0)
    told = []
    runs = [
        train("kernels", LLTM, "cpu", digits, 2, seed=0, on_epoch=lambda *facts: told.append(facts)),
        train("reference", ReferenceLLTM, "cpu", digits, 2, seed=0),
    ]
    assert largest_gap(runs)[1] < 1e-4
    assert runs[0].losses[1] < runs[0].losses[0]
    assert [epoch for epoch, _, _ in told] == [1, 2]
    right = sum(map(int.__eq__, runs[0].predictions, digits.test_labels.tolist()))
    assert runs[0].accuracy == pytest.approx(right / len(digits.test_labels))
