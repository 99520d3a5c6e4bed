"""Trains examples/detection and torchvision's model on the same digits, from the same weights, with the same schedule.

    python benchmarks/detection_digits.py --json results.json                    # three seeds of configs/digits.yaml
    python benchmarks/detection_digits.py --json results.json --seeds 1 --only torchvision --device cuda:1   # a part of that
    python benchmarks/detection_digits.py --device cpu --images 100 --seeds 0 solver.steps=4 data.batch=2 data.workers=2

For each seed torchvision's model is made first, and both begin with its weights. torchvision's is trained as its references
do: a list of images with whole masks, `GeneralizedRCNNTransform` resizes them, eager mode with autocast. The optimizer, the
rates, clipping and the order of images are this program's for both. Both are measured by the same code: torchvision's
trained weights are loaded into our model for that, whose outputs the tests hold against torchvision's.

Several processes, each with a part on a GPU of its own, may write to one file.

It needs torchvision, and what examples/detection needs.
"""

# ruff: noqa: E402 -- the package of examples/detection is found after its folder is named

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "examples" / "detection")]

from opsmith_detection.config import Config, load_config
from opsmith_detection.data.coco import CocoDataset
from opsmith_detection.data.digits import make_digits
from opsmith_detection.data.loader import Batches
from opsmith_detection.data.masks import as_rle
from opsmith_detection.engine.distributed import World
from opsmith_detection.engine.inference import Predictor, evaluated
from opsmith_detection.engine.optimizer import build_optimizer, rate_at, set_rate
from opsmith_detection.engine.step import autocast
from opsmith_detection.engine.training import Training, datasets, evaluate, prepare
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import load_torchvision
from pycocotools import mask as coco_mask

from torchvision_detectors import torchvision_model

SIDES = ("ours", "torchvision")
MEASURED = ("box/AP", "box/AP50", "mask/AP", "mask/AP50")


class Images(Dataset[tuple[Tensor, dict[str, Tensor]]]):
    """Images with boxes, labels and whole masks, as torchvision's models take them."""

    def __init__(self, dataset: CocoDataset) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        pixels, objects = self.dataset.image(index), self.dataset.objects(index)
        size = pixels.shape[0], pixels.shape[1]
        masks = coco_mask.decode([as_rle(segmentation, size) for segmentation in objects.segmentations])
        targets = {
            "boxes": torch.from_numpy(objects.boxes),
            "labels": torch.from_numpy(objects.labels),
            "masks": torch.from_numpy(np.ascontiguousarray(masks.transpose(2, 0, 1))),
        }
        return torch.from_numpy(pixels).permute(2, 0, 1), targets


def order(images: int, batch: int, seed: int, steps: int) -> Iterator[list[int]]:
    """Give the images of each step: all of them, shuffled in each epoch."""
    epoch, waiting = 0, np.zeros(0, np.int64)
    for _ in range(steps):
        while len(waiting) < batch:
            waiting = np.concatenate([waiting, np.random.default_rng((seed, epoch)).permutation(images)])
            epoch += 1
        yield waiting[:batch].tolist()
        waiting = waiting[batch:]


def train_torchvision(model: nn.Module, config: Config, device: torch.device) -> dict[str, float]:
    """Train with torchvision's model and return the seconds of the whole and of a step."""
    prepare(config)
    solver, data = config.solver, datasets(config)["train"]
    model.to(device).train()
    optimizer = build_optimizer(model, solver)
    batches = DataLoader(
        Images(data), batch_sampler=list(order(len(data), config.data.batch, config.seed, solver.steps)),
        num_workers=config.data.workers, collate_fn=lambda samples: tuple(zip(*samples, strict=True)),
        pin_memory=device.type == "cuda", multiprocessing_context="fork" if config.data.workers else None,
    )  # fmt: skip
    marks = [time.perf_counter()]
    for step, (images, targets) in enumerate(batches):
        set_rate(optimizer, rate_at(step, solver, config.data.batch))
        floats = [image.to(device, non_blocking=True).float() / 255 for image in images]
        moved = [{name: value.to(device, non_blocking=True) for name, value in one.items()} for one in targets]
        with autocast(device, solver.precision):
            losses = model(floats, moved)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        if solver.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), solver.clip_norm)
        optimizer.step()
        if (step + 1) % solver.log_every == 0 or step + 1 == solver.steps:
            total = sum(float(loss.detach()) for loss in losses.values())
            marks.append(time.perf_counter())
            print(f"torchvision {step + 1:>6}/{solver.steps}  loss {total:.3f}", file=sys.stderr)
    return _seconds(marks, solver.log_every)


def train_ours(weights: dict[str, Tensor], config: Config, device: torch.device) -> tuple[Training, dict[str, float]]:
    """Train with examples/detection, from torchvision's weights; evaluations are not in the times."""
    shutil.rmtree(config.output, ignore_errors=True)
    training = Training(config, World(0, 1, device))
    load_torchvision(training.model, weights)
    solver, marks = config.solver, [time.perf_counter()]
    training.model.train()
    for step in range(solver.steps):
        training.step(training.feed, step)
        if (step + 1) % solver.log_every == 0 or step + 1 == solver.steps:
            losses = training.step.read_losses()
            marks.append(time.perf_counter())
            total = sum(value for name, value in losses.items() if name != "gradient_norm")
            print(f"ours        {step + 1:>6}/{solver.steps}  loss {total:.3f}", file=sys.stderr)
    return training, _seconds(marks, solver.log_every)


def _seconds(marks: list[float], steps: int) -> dict[str, float]:
    apart = [(later - earlier) / steps for earlier, later in pairwise(marks[1:])]
    return {"training_s": marks[-1] - marks[0], "step_ms": 1000 * statistics.median(apart or [marks[-1] - marks[0]])}


def run(config: Config, seed: int, device: torch.device, sides: Sequence[str] = SIDES) -> dict[str, Any]:
    """Train both with a seed, or one of them, and return what was measured of each."""
    config = replace(config, seed=seed, output=config.output / f"seed{seed}")
    torch.manual_seed(seed)
    theirs = torchvision_model(config.model, config.data.shorter_sides, config.data.longest_side)
    weights = {name: value.clone() for name, value in theirs.state_dict().items()}
    world, measured = World(0, 1, device), {}
    if "ours" in sides:
        training, times = train_ours(weights, config, device)
        with evaluated(training.model, training.average):
            found = evaluate(training.predictor, training.tests, world)
        measured["ours"] = {**times, **{name: found[name] for name in MEASURED}}
        del training
    if "torchvision" in sides:
        times = train_torchvision(theirs, config, device)
        model = build_model(config.model)
        load_torchvision(model, {name: value.cpu() for name, value in theirs.state_dict().items()})
        predictor = Predictor(model.to(device).eval(), config, device)
        found = evaluate(predictor, Batches(datasets(config)["test"], config, world, training=False), world)
        measured["torchvision"] = {**times, **{name: found[name] for name in MEASURED}}
    return {"seed": seed, **measured}


def write(file: Path, about: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    """Write what was measured; runs of a file that is there with the same settings stay, unless they are measured again."""
    with FileLock(Path(tempfile.gettempdir()) / f".{file.name}.lock"):  # nothing beside the results
        known: dict[int, dict[str, Any]] = {}
        if file.is_file():
            content = json.loads(file.read_text(encoding="utf-8"))
            if {**content, **about, "date": ""} == {**content, "date": ""}:
                known = {one["seed"]: one for one in content["runs"]}
        for one in runs:
            known[one["seed"]] = known.get(one["seed"], {}) | one
        ordered = [known[seed] for seed in sorted(known)]
        file.write_text(json.dumps({**about, "runs": ordered}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "detection" / "configs" / "digits.yaml")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument(
        "--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[0, 1, 2], help="such as 0,1,2"
    )
    parser.add_argument("--only", choices=SIDES, help="train one of the two; both by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="name=value")
    given = parser.parse_intermixed_args()
    config, device = load_config(given.config, given.overrides), torch.device(given.device)
    make_digits(config.data.train.parent, given.images, config.data.canvases[0])
    sides = (given.only,) if given.only else SIDES
    results = [run(config, seed, device, sides) for seed in given.seeds]
    for name in ("training_s", "step_ms", *MEASURED):
        row = []
        for side in sides:
            values = [result[side][name] for result in results]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            row.append(f"{side} {statistics.fmean(values):9.3f}{spread}")
        print(f"{name:12}  {'   '.join(row)}")
    if given.json is not None:
        about = {
            "date": datetime.now(timezone.utc).date().isoformat(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "torch": torch.__version__,
            "config": str(given.config.name),
            "overrides": [one for one in given.overrides if not one.startswith(("output=", "data.workers="))],
        }
        write(given.json, about, results)


if __name__ == "__main__":
    main()
