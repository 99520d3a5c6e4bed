"""Loads what the demo trains on: scikit-learn's 1,797 handwritten digits, as sequences of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from opsmith.errors import OpsmithError

__all__ = ["Digits", "load_digits", "require_extras"]

_TEST_SHARE = 0.25
_BRIGHTEST = 16.0


@dataclass(frozen=True)
class Digits:
    """Images as sequences: 8 steps (rows) of 8 pixels between 0 and 1, float32 [N, 8, 8]; labels int64 [N]."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def require_extras() -> None:
    """Raise OpsmithError if scikit-learn is missing."""
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        raise OpsmithError('opsmith demo needs scikit-learn: pip install "opsmith[demo]"')


def load_digits(seed: int) -> Digits:
    """Return the images (Alpaydin and Kaynak 1998, UCI), split the same way for the same seed.

    Every digit has the same share of both parts. They come with scikit-learn, so nothing is downloaded.
    """
    import sklearn.datasets
    import sklearn.model_selection

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    parts = sklearn.model_selection.train_test_split(
        images.reshape(-1, 8, 8) / _BRIGHTEST, labels, test_size=_TEST_SHARE, random_state=seed, stratify=labels
    )
    train_images, test_images = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_labels, test_labels = (torch.tensor(part, dtype=torch.int64) for part in parts[2:])
    return Digits(train_images, train_labels, test_images, test_labels)
