"""The data set of digits."""

from __future__ import annotations

from opsmith_detection.config import DataConfig
from opsmith_detection.data.coco import CocoDataset
from opsmith_detection.data.digits import make_digits
from opsmith_detection.data.loader import Loader


def test_a_batch_of_digits(tmp_path):
    folder = make_digits(tmp_path / "digits", images=10, size=(64, 96))
    dataset = CocoDataset(folder / "train.json")
    assert len(dataset) == 8
    config = DataConfig(canvases=((64, 96), (96, 64)), shorter_sides=(64,), batch=2, workers=0)
    batch = next(iter(Loader(dataset, config, training=True, seed=0, with_masks=True)))
    assert batch.images.shape == (2, 3, 64, 96)
    assert batch.targets is not None and batch.targets.masks is not None
    present = batch.targets.labels > 0
    assert present.any(1).all()
    assert (batch.targets.masks[present].float().amax((1, 2)) == 255).all()
