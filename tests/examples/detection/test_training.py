"""A training and its files: whose labels count, and what ends it before it begins."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import sys
import weakref
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from detection_kit.files import annotation, square, write
from detection_kit.tiny import SMALL
from filelock import FileLock
from opsmith_detection.__main__ import _run, main
from opsmith_detection.config import Config, ConfigError, load_config
from opsmith_detection.data.coco import Category, DataError
from opsmith_detection.data.loader import Batches
from opsmith_detection.engine.checkpoint import CheckpointError
from opsmith_detection.engine.distributed import World, join
from opsmith_detection.engine.lock import hold_folder
from opsmith_detection.engine.log import Log, read_log
from opsmith_detection.engine.step import DivergedError
from opsmith_detection.engine.training import Training, datasets, evaluate
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import WeightsError
from opsmith_detection.predict import find_objects, load_run
from opsmith_detection.structures import Batch, Detections
from PIL import Image

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
    images = [f"data.train_images={folder}/train", f"data.test_images={folder}/test"]
    data = [f"data.train={folder}/train.json", f"data.test={folder}/test.json", *images]
    shapes = ["data.canvases=[[64, 64]]", "data.shorter_sides=[64]", "data.batch=1", "data.workers=0"]
    model = ["model.classes=5", "model.mask_head=null", "solver.precision=float32"]
    return load_config(None, [*SMALL, *model, f"output={folder}/run", *data, *shapes, *overrides])


def test_a_test_file_that_lacks_a_class_is_measured_with_the_labels_of_the_training(tmp_path: Path):
    config = config_of(tmp_path, "data.labels=contiguous")
    tests = Batches(datasets(config)["test"], config, ALONE, training=False)
    result = evaluate(SaysDog(), tests, ALONE)  # type: ignore[arg-type]
    assert result["box/AP"] == pytest.approx(1)


def test_each_file_has_images_of_its_own(tmp_path: Path):
    config = config_of(tmp_path)
    Image.new("RGB", (64, 64), "red").save(tmp_path / "test" / "1.png")
    data = datasets(config)
    assert data["train"].names == data["test"].names == ["1.png"]
    assert data["test"].image(0)[0, 0].tolist() == [255, 0, 0] != data["train"].image(0)[0, 0].tolist()


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


@pytest.mark.compile
def test_a_test_file_without_objects_is_measured_once(tmp_path: Path):
    config = config_of(tmp_path, "solver.steps=1", "solver.evaluate_every=1")
    entries = json.loads((tmp_path / "test.json").read_text())
    (tmp_path / "test.json").write_text(json.dumps({**entries, "annotations": []}))
    Training(config, ALONE).run()
    logged = (config.output / "log.jsonl").read_text()
    assert json.loads(logged.splitlines()[-1])["box/AP"] is None
    training = Training(config, ALONE, resume=True)
    assert math.isnan(training.run()["box/AP"])
    assert (config.output / "log.jsonl").read_text() == logged
    if find_spec("matplotlib"):
        from opsmith_detection.report import write_report

        assert "<svg" in write_report(training).read_text()


@pytest.mark.compile
def test_a_checkpoint_that_does_not_fit_leaves_the_configuration_of_the_run(tmp_path: Path):
    overrides = ["solver.steps=1", "solver.evaluate_every=1"]
    Training(config_of(tmp_path, *overrides), ALONE).run()
    before = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(CheckpointError, match="of a training with sgd"):
        Training(config_of(tmp_path, *overrides, "solver.optimizer=adamw"), ALONE, resume=True).run()
    assert (tmp_path / "run" / "config.yaml").read_text() == before


@pytest.mark.compile
def test_a_folder_has_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = config_of(tmp_path, "solver.steps=1")
    monkeypatch.setattr("opsmith_detection.engine.lock._PATIENCE_S", 0)
    training = Training(config, ALONE)
    config.output.mkdir()
    with FileLock(config.output / ".lock"), pytest.raises(ConfigError, match=r"another run writes to .*run: wait for"):
        training.run()
    assert [path.name for path in config.output.iterdir()] == [".lock"]
    training.run()
    assert Training(config, ALONE, resume=True).run() is not None


def test_a_file_system_without_locks_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refused)
    with hold_folder(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.rpn=null"], r"model\.rpn=null is a model that is called with proposals"),
        *(
            (
                ["data.canvases=[[64, 32], [32, 32]]", entry],
                r"a single pixel .* set data\.batch=2 or larger data\.canvases",
            )
            for entry in ("model.backbone.norm=batch", "model.backbone.norm=sync", "model.backbone.pyramid_norm=true")
        ),
    ],
)
def test_what_cannot_be_trained_is_named(tmp_path: Path, overrides: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        Training(config_of(tmp_path, *overrides), ALONE)


@pytest.mark.compile
@pytest.mark.parametrize("name", ["file/run", "closed/run"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, name: str):
    (tmp_path / "file").touch()
    (tmp_path / "closed").symlink_to("/proc")  # where not even root makes a folder
    with pytest.raises(ConfigError, match=rf"{name} cannot be written to: .*output=FOLDER"):
        Training(config_of(tmp_path, f"output={tmp_path}/{name}"), ALONE).run()


@pytest.mark.compile
def test_only_a_data_set_that_is_missing_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    Training(config_of(tmp_path), ALONE)._save()
    (tmp_path / "test.json").unlink()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("opsmith_detection.__main__.record", lambda command: command)  # takes stderr's descriptor
    given = ["--device", "cpu", "--checkpoint", "run"]
    for arguments, is_offered in ((["predict", *given, "nosuch.jpg"], False), (["eval", *given], True)):
        monkeypatch.setattr(sys, "argv", ["opsmith_detection", *arguments])
        with pytest.raises(SystemExit, match="1"):
            _run()
        said = capsys.readouterr().err
        assert "cannot be read" in said and ("make detect" in said) == is_offered, said


@pytest.mark.parametrize("command", [["demo", "--images", "1"], ["predict", "--checkpoint", "run", "nosuch.jpg"]])
def test_what_writes_the_same_files_in_each_process_runs_in_one(command: list[str]):
    done = CliRunner().invoke(main, command, env={"WORLD_SIZE": "2"})
    said = f"{command[0]} runs in one process: start it without torchrun"
    assert done.exit_code == 2 and said in done.output, done.exception


def test_a_training_is_gone_when_its_processes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The last reference to a process group of Gloo, of which a wrapped model has one, must not outlive the group."""
    held: list[weakref.ref[object]] = []

    class Trained:
        def __init__(self, *_: object, resume: bool) -> None:
            held.append(weakref.ref(self))

        def run(self) -> dict[str, float]:
            return {"box/AP": 0.5}

    @contextlib.contextmanager
    def joined(_: str | None):
        yield World(0, 2, torch.device("cpu"))
        assert [each() for each in held] == [None]

    monkeypatch.setattr("opsmith_detection.__main__.Training", Trained)
    monkeypatch.setattr("opsmith_detection.__main__.join", joined)
    done = CliRunner().invoke(main, ["train", f"output={tmp_path}"], catch_exceptions=False)
    assert done.exit_code == 0 and held


def test_a_demo_whose_precision_is_not_a_number_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    result = {"mask/AP": math.nan, "mask/AP50": math.nan}
    monkeypatch.setattr("opsmith_detection.__main__.make_digits", lambda *_, **__: None)
    monkeypatch.setattr("opsmith_detection.__main__._train", lambda *_, **__: result)
    monkeypatch.setattr("opsmith_detection.__main__.load_run", lambda *_: (None, {}))
    monkeypatch.setattr("opsmith_detection.__main__.list_images", lambda _: [])
    monkeypatch.setattr("opsmith_detection.__main__.predict_images", lambda *_: 1.0)
    done = CliRunner().invoke(main, ["demo", "--device", "cpu", "--minimum", "0", f"output={tmp_path}"])
    assert done.exit_code == 1 and "mask AP50 is nan, at least 0.0 was expected" in done.output, done.exception


@pytest.mark.compile
def test_a_loaded_model_folds_its_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = config_of(tmp_path)
    Training(config, ALONE)._save()
    predictor, categories = load_run(tmp_path / "run", ALONE.device)
    assert categories[5].name == "dog"
    image = np.zeros((64, 64, 3), np.uint8)
    find_objects(predictor, image, 0.5)
    monkeypatch.setattr("opsmith_detection.models.layers._product", lambda *_: pytest.fail("weights are folded again"))
    find_objects(predictor, image, 0.5)


def test_tensorboard_keeps_the_step_that_a_run_goes_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It hides what an earlier process wrote from `purge_step` on, and log.jsonl has the entries up to that step."""
    given = []

    class SummaryWriter(contextlib.nullcontext):
        def __init__(self, folder: Path, purge_step: int) -> None:
            super().__init__()
            given.append(purge_step)

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    for start in (0, 7):
        with Log(tmp_path, start=start, steps=10):
            pass
    assert given == [1, 8]


def test_a_process_that_dies_as_it_opens_a_log_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with Log(tmp_path, start=0, steps=2) as log:
        log.write(1, {"loss": 0.5})

    def dies(path: Path, text: str, **_: object) -> None:
        path.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", dies)
    with pytest.raises(KeyboardInterrupt):
        Log(tmp_path, start=1, steps=2)
    assert read_log(tmp_path) == [{"step": 1, "loss": 0.5}]


@pytest.mark.parametrize("error", [ConfigError, DataError, CheckpointError, WeightsError, DivergedError])
def test_what_is_wrong_is_said_without_a_traceback(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(**_: object) -> None:
        raise error("it is wrong")

    monkeypatch.setattr("opsmith_detection.__main__.record", lambda _: fails)
    with pytest.raises(SystemExit, match="1"):
        _run()
    assert capsys.readouterr().err == "error: it is wrong\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train", "interrupted: --resume goes on after the last checkpoint"),
        ("demo", "interrupted: the same command goes on after the last checkpoint"),
        ("predict", "interrupted"),
    ],
)
def test_an_interruption_says_how_to_go_on(command: str, said: str, monkeypatch: pytest.MonkeyPatch):
    def interrupted(**_: object) -> None:
        raise click.Abort

    monkeypatch.setattr("opsmith_detection.__main__.record", lambda _: interrupted)
    monkeypatch.setattr(sys, "argv", ["opsmith_detection", command])
    with pytest.raises(SystemExit, match=f"^{said}$"):
        _run()


@pytest.mark.parametrize(
    ("overrides", "advice"),
    [
        ([], "set model.classes=1005, or data.labels=contiguous and model.classes=3"),
        (["data.labels=contiguous", "model.classes=2"], "set model.classes=3"),
    ],
)
def test_labels_with_gaps_may_be_counted(tmp_path: Path, overrides: list[str], advice: str):
    config = config_of(tmp_path, *overrides)
    entries = json.loads((tmp_path / "train.json").read_text())
    entries["categories"] = [{**category, "id": 1000 + category["id"]} for category in CLASSES]
    entries["annotations"] = []
    (tmp_path / "train.json").write_text(json.dumps(entries))
    with pytest.raises(ConfigError, match=f"{advice}$"):
        datasets(config)


@pytest.mark.parametrize("iscrowd", [0, 1])
def test_a_test_file_without_masks_or_images_ends_a_run_before_it_begins(tmp_path: Path, iscrowd: int):
    config = config_of(tmp_path, "model.mask_head={convs: 1, channels: 8}")
    path = tmp_path / "test.json"
    entries = json.loads(path.read_text())
    masks = square(1, 8, 8, 40)["segmentation"]
    whole, bare = ({**one, "segmentation": masks} for one in entries["annotations"] * 2)
    bare = {**bare, "segmentation": None, "iscrowd": iscrowd, "id": 2}
    (tmp_path / "train.json").write_text(json.dumps({**entries, "categories": CLASSES, "annotations": [whole]}))
    path.write_text(json.dumps({**entries, "annotations": [whole, bare]}))
    with pytest.raises(DataError, match=r"test\.json: 1 objects have no `segmentation`.*model\.mask_head=null"):
        Training(config, ALONE)
    path.write_text(json.dumps({**entries, "images": [], "annotations": []}))
    with pytest.raises(DataError, match=r"test\.json has no images"):
        Training(config, ALONE)


@pytest.mark.parametrize("device", ["tpu", "mps", "cuda:99"])
def test_a_device_that_is_not_here_is_named(device: str):
    with pytest.raises(ConfigError, match=rf"--device {device} is not here .*write cpu, cuda or cuda:1"), join(device):
        pass


def test_weights_that_are_none_are_named(tmp_path: Path):
    path = tmp_path / "weights.pth"
    config = load_config(None, [*SMALL, f"model.backbone.weights={path}"]).model
    with pytest.raises(WeightsError, match=r"weights\.pth cannot be read: No such file"):
        build_model(config)
    for content in (b"text", b"", b"PK\3\4"):
        path.write_bytes(content)
        with pytest.raises(WeightsError, match=r"weights\.pth does not have what `torch\.save` writes"):
            build_model(config)
    torch.save({"model": {"conv1.weight": torch.ones(1)}}, path)
    with pytest.raises(WeightsError, match=r"weights\.pth is not a state dict of tensors"):
        build_model(config)
