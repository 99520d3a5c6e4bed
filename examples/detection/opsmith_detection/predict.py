"""Finds objects in images of any size, and draws them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from opsmith_detection.config import parse_config
from opsmith_detection.data.coco import Category, DataError, read_image
from opsmith_detection.data.transforms import batch_of
from opsmith_detection.engine.checkpoint import load_checkpoint, load_weights
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.engine.training import categories_of, prepare
from opsmith_detection.found import Found, as_results, captions, draw_objects, found_in
from opsmith_detection.models import build_model

__all__ = ["find_objects", "list_images", "load_run", "predict_images"]

_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def load_run(
    checkpoint: Path, device: torch.device, overrides: Sequence[str] = ()
) -> tuple[Predictor, dict[int, Category]]:
    """Load a checkpoint's model, with averaged weights if it has them, and what its labels stand for.

    Raises:
        CheckpointError: there is none, or the file is of something else.
        ConfigError: an override does not fit.
    """
    content = load_checkpoint(checkpoint)
    config = parse_config(content["config"], overrides)
    prepare(config)
    backbone = replace(config.model.backbone, weights=None)  # the checkpoint has them
    model = build_model(replace(config.model, backbone=backbone)).to(device)
    load_weights(content, model)
    model.eval().requires_grad_(False)  # weights that are trained would be folded with their norms at every call
    return Predictor(model, config, device), categories_of(content)


def find_objects(predictor: Predictor, image: npt.NDArray[np.uint8], threshold: float) -> Found:
    """Find the objects of an image, RGB of [height, width, 3], whose score is at least `threshold`."""
    batch = batch_of(image, predictor.config.data)
    detections = predictor(batch)
    kept = (detections.labels[0] > 0) & (detections.scores[0] >= threshold)
    return found_in(batch, detections, 0, kept, (image.shape[0], image.shape[1]))


def predict_images(
    predictor: Predictor,
    paths: Sequence[Path],
    output: Path,
    categories: Mapping[int, Category],
    threshold: float = 0.5,
) -> float:
    """Write a picture of each image with what is found in it, and `predictions.json` in COCO's format of results.

    Images are numbered from 1 in the order of `paths`; a picture has its image's number and name.

    Returns:
        Images a second, from pixels to objects: those of the median, since the first calls build operators and graphs.

    Raises:
        DataError: a file would be written over, or is not an image, which is said when the others are done.
    """
    pictures = [output / f"{number:05}-{path.stem}.png" for number, path in enumerate(paths, start=1)]
    if {path.resolve() for path in paths} & {picture.resolve() for picture in pictures}:
        raise DataError(f"{output} has images that would be written over: name another folder for the pictures")
    output.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    unread: list[str] = []
    seconds: list[float] = []
    for number, (path, picture) in enumerate(zip(paths, pictures, strict=True), start=1):
        try:
            image = np.array(read_image(path))
        except DataError as error:
            unread.append(str(error))
            continue
        began = time.perf_counter()
        found = find_objects(predictor, image, threshold)
        seconds.append(time.perf_counter() - began)
        draw_objects(image, found, captions(found, categories)).save(picture)
        results += [{"file_name": path.name, **result} for result in as_results(number, found, categories)]
    (output / "predictions.json").write_text(json.dumps(results), encoding="utf-8")
    if unread:
        raise DataError(
            "\n".join([*unread, f"{output} has what is found in the other {len(paths) - len(unread)} images"])
        )
    return 1 / statistics.median(seconds)


def list_images(sources: Iterable[Path]) -> list[Path]:
    """Return files, and the images of folders.

    Raises:
        DataError: there is nothing.
    """
    paths: list[Path] = []
    for source in sources:
        if source.is_dir():
            paths += sorted(path for path in source.iterdir() if path.suffix.lower() in _SUFFIXES)
        else:
            paths.append(source)
    if not paths:
        raise DataError(f"no images in {', '.join(map(str, sources))}: looked for {' '.join(_SUFFIXES)}")
    return paths
