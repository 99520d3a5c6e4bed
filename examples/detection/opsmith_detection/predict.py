"""Finds objects in images of any size, and draws them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from opsmith_detection.config import Config, DataConfig, parse_config
from opsmith_detection.data.coco import Category, DataError, read_image
from opsmith_detection.data.transforms import batch_of
from opsmith_detection.engine.checkpoint import load_checkpoint, load_weights
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.engine.training import categories_of, prepare
from opsmith_detection.found import Found, as_results, captions, draw_objects, found_in
from opsmith_detection.models import build_model

__all__ = ["LoadedRun", "Speed", "find_objects", "list_images", "load_run", "predict_images"]

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


class Speed(NamedTuple):
    """Images a second."""

    images: int
    found: float  # from pixels to objects
    all: float  # with reading, drawing and writing


class LoadedRun(NamedTuple):
    """What a checkpoint holds for inference."""

    predictor: Predictor
    config: Config
    categories: dict[int, Category]  # what labels stand for


def load_run(checkpoint: Path, device: torch.device, overrides: Sequence[str] = ()) -> LoadedRun:
    """Load a checkpoint's model, with averaged weights if it has them.

    Raises:
        CheckpointError: there is none, or the file is not one.
        ConfigError: an override does not fit.
    """
    content = load_checkpoint(checkpoint)
    config = parse_config(content["config"], overrides)
    prepare(config)
    backbone = replace(config.model.backbone, weights=None)  # the checkpoint has them
    model = build_model(replace(config.model, backbone=backbone)).to(device)
    load_weights(content, model)
    return LoadedRun(Predictor(model.eval(), config, device, graph=config.graph), config, categories_of(content))


def find_objects(predictor: Predictor, image: npt.NDArray[np.uint8], data: DataConfig, threshold: float) -> Found:
    """Find the objects of an image, RGB of [height, width, 3], whose score is at least `threshold`."""
    batch = batch_of(image, data)
    detections = predictor(batch)
    kept = (detections.labels[0] > 0) & (detections.scores[0] >= threshold)
    return found_in(batch, detections, 0, kept, (image.shape[0], image.shape[1]))


def predict_images(
    predictor: Predictor,
    paths: Sequence[Path],
    output: Path,
    data: DataConfig,
    categories: Mapping[int, Category],
    threshold: float = 0.5,
) -> Speed:
    """Write a picture of each image with what is found in it, and `predictions.json` in COCO's format of results.

    Images count from 1 in the order of `paths`, and have their names in the file, too.

    Raises:
        DataError: a file would be written over, or is not an image, which is said when the others are done.
    """
    stems = Counter(path.stem for path in paths)
    numbered = [f"{number}-{path.stem}" for number, path in enumerate(paths, start=1)]
    taken = set(numbered)
    names = [
        f"{path.stem if stems[path.stem] == 1 and path.stem not in taken else other}.png"
        for path, other in zip(paths, numbered, strict=True)
    ]
    if {path.resolve() for path in paths} & {(output / name).resolve() for name in names}:
        raise DataError(f"{output} has images that would be written over: name another folder for the pictures")
    output.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    unread: list[str] = []
    began, finding = 0.0, 0.0
    for number, (path, name) in enumerate(zip(paths, names, strict=True), start=1):
        try:
            image = np.array(read_image(path))
        except DataError as error:
            unread.append(str(error))
            continue
        if not began:  # what is built and captured at first is not the model's speed
            predictor.warm(batch_of(image, data))
            began = time.perf_counter()
        before = time.perf_counter()
        found = find_objects(predictor, image, data, threshold)
        finding += time.perf_counter() - before
        draw_objects(image, found, captions(found, categories)).save(output / name)
        results += [{"file_name": path.name, **result} for result in as_results(number, found, categories)]
    passed = time.perf_counter() - began
    (output / "predictions.json").write_text(json.dumps(results), encoding="utf-8")
    if unread:
        raise DataError(
            "\n".join([*unread, f"{output} has what is found in the other {len(paths) - len(unread)} images"])
        )
    return Speed(len(paths), len(paths) / max(finding, 1e-9), len(paths) / max(passed, 1e-9))


def list_images(sources: Iterable[Path]) -> list[Path]:
    """Return files, and the images of folders.

    Raises:
        DataError: there is nothing.
    """
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            found += sorted(path for path in source.iterdir() if path.suffix.lower() in _SUFFIXES)
        else:
            found.append(source)
    if not found:
        raise DataError(f"no images in {', '.join(map(str, sources))}: looked for {' '.join(_SUFFIXES)}")
    return found
