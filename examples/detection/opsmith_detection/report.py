"""A page about a run: losses, average precision, pictures, where a step's time goes, the configuration, the machine."""

from __future__ import annotations

import base64
import io
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, select_autoescape
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

import opsmith
from opsmith_detection.config import as_yaml
from opsmith_detection.data.masks import as_rle
from opsmith_detection.engine.inference import evaluated
from opsmith_detection.engine.log import read_log
from opsmith_detection.engine.training import Training
from opsmith_detection.found import Found, captions, draw_objects
from opsmith_detection.predict import find_objects

__all__ = ["write_report"]

_PICTURES = 6
_STEPS = 3  # that are timed
_SCORE = 0.5  # of what is drawn, at least


def write_report(training: Training) -> Path:
    """Write `report.html` into the run's folder, from its log and its model, and return the path.

    A few more steps are made to be timed, so the model is not the checkpoint's afterwards.
    """
    entries = read_log(training.config.output)
    last: dict[str, float | None] = next((entry for entry in reversed(entries) if "box/AP" in entry), {})
    pictures = list(_pictures(training))
    parts, whole_ms = _time_parts(training)
    environment = Environment(loader=PackageLoader("opsmith_detection"), autoescape=select_autoescape(["j2"]))
    page = environment.get_template("report.html.j2").render(
        title=str(training.config.output),
        figures=[(name, f"{value:.3f}") for name, value in last.items() if "/AP" in name and value is not None],
        charts=_charts(entries),
        pictures=pictures,
        parts=[(name, ms, ms / sum(parts.values())) for name, ms in parts.items()],
        whole_ms=whole_ms,
        images=training.images,
        configuration=as_yaml(training.config),
        machine=_machine(training.world.device),
    )
    path = training.config.output / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _charts(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return SVG of what was logged, by step."""
    known = list({name: None for entry in entries for name in entry})
    others = ("step", "gradient_norm", "rate", "images_per_second")
    charts = {
        "losses": [name for name in known if "/" not in name and name not in others],
        "average precision": [name for name in known if name.partition("/")[2] in ("AP", "AP50")],
        "norm of the gradients": ["gradient_norm"],
        "images a second": ["images_per_second"],
    }
    drawn = []
    for title, names in charts.items():
        figure = Figure(figsize=(6, 2.8), layout="constrained")
        axes = figure.subplots()
        for name in names:
            points = [(entry["step"], entry[name]) for entry in entries if entry.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=f"{name} {points[-1][1]:.3g}")
        axes.set(title=title, ylim=(0, 1) if "precision" in title else (0, None))
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
        file = io.StringIO()
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(file, format="svg", transparent=True)
        drawn.append(file.getvalue()[file.getvalue().index("<svg") :])
    return drawn


def _pictures(training: Training) -> Iterator[tuple[str, str]]:
    """Give pictures of test images as sources of <img>: with their objects, and with what the model finds."""
    dataset = training.data["test"]
    with evaluated(training.model, training.average):
        for index in range(min(_PICTURES, len(dataset))):
            image, objects = dataset.image(index), dataset.objects(index)
            size = image.shape[0], image.shape[1]
            labels = objects.labels.tolist()
            masks = [as_rle(segmentation, size) for segmentation in objects.segmentations if segmentation is not None]
            truth = Found(objects.boxes, [1.0] * len(labels), labels, masks if len(masks) == len(labels) else None)
            found = find_objects(training.predictor, image, _SCORE)
            names = [dataset.categories[label].name for label in labels]
            said = captions(found, dataset.categories)
            yield _source(draw_objects(image, truth, names)), _source(draw_objects(image, found, said))


def _source(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _time_parts(training: Training) -> tuple[dict[str, float], float]:
    """Return the milliseconds of each part of an eager step, and of a step as the training makes it."""
    times: dict[str, float] = {}

    def finish() -> None:
        if training.world.device.type == "cuda":
            torch.cuda.synchronize(training.world.device)

    @contextmanager
    def part(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        finish()
        times[name] = times.get(name, 0.0) + (time.perf_counter() - began) / _STEPS * 1000

    training.model.train()
    finish()
    with torch.cuda.stream(training.step.stream):
        for _ in range(_STEPS):
            with part("data"):
                batch = next(training.feed)
            training.step.compute(batch, first=True, last=True, part=part)
    began = time.perf_counter()
    for _ in range(_STEPS):
        training.step(training.feed, training.done)
    finish()
    return times, (time.perf_counter() - began) / _STEPS * 1000


def _machine(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": name,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "opsmith": opsmith.__version__,
        "Python": platform.python_version(),
        "system": platform.platform(),
    }
