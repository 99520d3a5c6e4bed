"""A training and its files: whose labels count, and what ends it before it begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from detection_kit.files import annotation, write
from detection_kit.tiny import SMALL
from opsmith_detection.__main__ import main
from opsmith_detection.config import Config, load_config
from opsmith_detection.data.coco import Category, DataError
from opsmith_detection.engine.distributed import World
from opsmith_detection.engine.training import Training, datasets, evaluate
from opsmith_detection.structures import Batch, Detections

ALONE = World(0, 1, torch.device("cpu"))
CLASSES = [{"id": 1, "name": "car"}, {"id": 2, "name": "cat"}, {"id": 5, "name": "dog"}]


class SaysDog:
    """A model that finds the one dog of an image and calls it what it is in the training."""

    def __call__(self, batch: Batch) -> Detections:
        boxes = torch.tensor([[[8.0, 8, 48, 48]]]) * batch.sizes[0, 0] / 64
        return Detections(boxes, torch.tensor([[0.9]]), torch.tensor([[3]]))


def config_of(folder: Path, *overrides: str) -> Config:
    """Of a data set in folders `train` and `test`, whose file lacks the second class."""
    for split, classes in (("train", CLASSES), ("test", CLASSES[::2])):
        (folder / split).mkdir(exist_ok=True)
        path = write(folder / split, [(64, 64)], [annotation(1, 5, [8, 8, 40, 40])], categories=classes)
        path.rename(folder / f"{split}.json")
    data = [f"data.train={folder}/train.json", f"data.test={folder}/test.json", f"data.images={folder}/train"]
    shapes = ["data.canvases=[[64, 64]]", "data.shorter_sides=[64]", "data.batch=1", "data.workers=0"]
    model = ["model.classes=5", "model.mask_head=null", "solver.precision=float32"]
    return load_config(None, [*SMALL, *model, f"output={folder}/run", *data, *shapes, *overrides])


def test_a_test_file_that_lacks_a_class_is_measured_with_the_labels_of_the_training(tmp_path: Path):
    config = config_of(tmp_path, "data.labels=contiguous")
    result = evaluate(SaysDog(), config, datasets(config)["test"], ALONE)  # type: ignore[arg-type]
    assert result["box/AP"] == pytest.approx(1)


@pytest.mark.compile
def test_a_run_goes_on_with_the_labels_of_its_checkpoint(tmp_path: Path):
    Training(config_of(tmp_path), ALONE)._save()
    counted = config_of(tmp_path, "data.labels=contiguous")
    learnt = {number: Category(name, number) for number, name in ((1, "car"), (2, "cat"), (5, "dog"))}
    assert Training(counted, ALONE, resume=True).data["train"].categories == learnt
    entries = json.loads((tmp_path / "train.json").read_text())
    entries["categories"] = [{"id": 5, "name": "disc"}]
    (tmp_path / "train.json").write_text(json.dumps(entries))
    with pytest.raises(DataError, match="'disc' with the id 5 is not one of the training: 'car' 1, 'cat' 2, 'dog' 5"):
        Training(counted, ALONE, resume=True)


@pytest.mark.compile
def test_a_checkpoint_is_measured_without_the_training_set(tmp_path: Path):
    Training(config_of(tmp_path, "data.labels=contiguous"), ALONE)._save()
    (tmp_path / "train.json").unlink()
    done = CliRunner().invoke(main, ["eval", "--device", "cpu", "--checkpoint", f"{tmp_path}/run"])
    assert done.exit_code == 0 and "box/AP50" in done.output, done.exception
