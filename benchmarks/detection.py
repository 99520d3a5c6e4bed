"""Times the detectors of examples/detection against torchvision's: training steps, inference, memory, and waiting.

    python benchmarks/detection.py --device cuda [--batch 2 --batch 8] [--only training] [--output FILE]
    python benchmarks/detection.py --device cpu [--output FILE]

Both have the same weights, which a seed makes, and the same images, on the device already: on a GPU noise of 800 x 1344 with
seven objects each and ResNet-50 with frozen batch norm (configs/mask_rcnn_r50.yaml and retinanet_r50.yaml), on a CPU
the model of configs/digits_small.yaml. Weights are such that both find as many objects as they may.

A training step is forward, losses, backward and SGD, under autocast to bfloat16 or in float32 with TF32. "opsmith" is the
step of examples/detection, a CUDA graph; "opsmith eager" is the same without it, and "opsmith recompute" with
`model.recompute=true`. "torchvision" is its model as its references train it; "channels_last" is that in this format, and
"compiled" has the backbone and the RPN's head compiled as well, which are the parts without shapes that the data give.

A sample is the host's time of some steps, until the GPU is done. Competitors take turns within a round and ratios are formed
within a round, unless the memory is too small for all of them ("alone"). `waits` are calls of cudaStreamSynchronize in a
step, `peak_bytes` the most bytes of tensors at a time, of model, optimizer and activations, and `reserved_bytes` what
PyTorch took from the GPU for them; all three of each competitor alone.
"""

# ruff: noqa: E402 -- the package of examples/detection is found after its folder is named

from __future__ import annotations

import argparse
import contextlib
import gc
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "detection")]

from opsmith_detection.config import Config, ModelConfig, load_config
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.engine.optimizer import build_optimizer
from opsmith_detection.engine.step import TrainStep, autocast
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import load_torchvision
from opsmith_detection.structures import Batch, Targets

from torchvision_detectors import torchvision_model
from turns import compare_samples, on_cpu, on_host, record, take_turns

CONFIGS = ROOT / "examples" / "detection" / "configs"
GPU_CANVAS, CPU_CANVAS = (800, 1344), (128, 128)
OBJECTS = 7  # COCO's images have so many on average
ROUNDS, STEPS = 9, 3
COMPETITORS = ("opsmith", "opsmith eager", "opsmith recompute", "torchvision", "channels_last", "compiled")

Call = Callable[[], Any]


def on_gpu(call: Call) -> float:
    """Return the seconds of a call until the GPU is done, the mean of some."""
    return on_host(call, STEPS)


# Names of torchvision's parameters and the deviations of their weights; others are spread by the number of their inputs.
SPREADS = (
    (r"rpn\.head\.cls_logits", 0.1),
    (r"rpn\.head\.bbox_pred", 0.05),
    (r"cls_score", 0.05),
    (r"box_predictor\.bbox_pred", 0.03),
    (r"mask_fcn_logits", 0.05),
    (r"classification_head\.cls_logits", 0.03),
    (r"bbox_reg", 0.02),
)


@torch.no_grad()
def spread(model: nn.Module) -> nn.Module:
    """Give a model weights with which activations keep their size and scores differ."""
    names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.dim() < 2:
            is_last = name.endswith("bn3.weight") or (
                name.endswith("bn2.weight") and name.replace("bn2", "bn3") not in names
            )
            if is_last:  # of a block: rounding does not grow from block to block
                value.fill_(0.2)
            continue
        own = next((deviation for pattern, deviation in SPREADS if re.search(pattern, name)), None)
        gain = 0.3 if ".fpn." in name else 1.0
        value.normal_(std=own or gain * (2 / value[0].numel()) ** 0.5)
    return model


def make_batch(images: int, canvas: tuple[int, int], config: ModelConfig, device: str) -> Batch:
    """Return images that fill the canvas and their objects, padded as the loader does it."""
    random = torch.Generator().manual_seed(1)
    height, width = canvas
    coarse = torch.rand(images, 3, height // 8, width // 8, generator=random)
    pixels = nn.functional.interpolate(coarse, canvas, mode="bilinear").mul(255).to(torch.uint8)
    most = 100 if device == "cuda" else 8
    boxes, labels = torch.zeros(images, most, 4), torch.zeros(images, most, dtype=torch.int64)
    corner = torch.rand(images, OBJECTS, 2, generator=random) * 0.6
    side = 0.05 + 0.35 * torch.rand(images, OBJECTS, 2, generator=random)
    boxes[:, :OBJECTS] = torch.cat([corner, corner + side], 2) * torch.tensor([width, height, width, height])
    labels[:, :OBJECTS] = torch.randint(1, config.classes + 1, (images, OBJECTS), generator=random)
    masks = torch.zeros(images, most, 112, 112, dtype=torch.uint8)
    masks[:, :OBJECTS, 10:-10, 10:-10] = 255
    batch = Batch(pixels, torch.tensor([canvas] * images).float(), torch.arange(images), Targets(boxes, labels, masks))
    return Batch(*(each.to(device) for each in batch[:3]), Targets(*(each.to(device) for each in batch.targets)))


def as_theirs(batch: Batch) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Return a batch as torchvision takes it, with masks of whole images."""
    assert batch.targets is not None
    images = [image.float() / 255 for image in batch.images]
    found = []
    for boxes, labels in zip(batch.targets.boxes, batch.targets.labels, strict=True):
        own = boxes[labels > 0]
        masks = torch.zeros(len(own), *batch.images.shape[2:], dtype=torch.uint8, device=own.device)
        for mask, (x1, y1, x2, y2) in zip(masks, own.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        found.append({"boxes": own, "labels": labels[labels > 0], "masks": masks})
    return images, found


def prepared(name: str, config: Config, canvas: tuple[int, int], device: str) -> nn.Module:
    """Return a competitor's model: ours or torchvision's, with the same weights."""
    torch.manual_seed(0)
    theirs = spread(torchvision_model(config.model, (min(canvas),), max(canvas)))
    if name.startswith("opsmith"):
        model = build_model(replace(config.model, recompute=name == "opsmith recompute"))
        load_torchvision(model, theirs.state_dict())
        return model.to(device)
    theirs = theirs.to(device)
    if name != "torchvision":
        theirs = theirs.to(memory_format=torch.channels_last)
    if name == "compiled":
        theirs.backbone = torch.compile(theirs.backbone)
        if config.model.kind == "rcnn":
            theirs.rpn.head = torch.compile(theirs.rpn.head)
    return theirs


def training(name: str, config: Config, canvas: tuple[int, int], batch: Batch, device: str) -> Call:
    """Return a training step of a competitor."""
    model = prepared(name, config, canvas, device).train()
    optimizer = build_optimizer(model, config.solver)
    if name.startswith("opsmith"):
        step = TrainStep(model, optimizer, config, images=len(batch.images), graph=name != "opsmith eager")
        return lambda: step(iter([batch]), 0)
    images, targets = as_theirs(batch)

    def call() -> None:
        optimizer.zero_grad()
        with autocast(torch.device(device), config.solver.precision):
            losses = model(images, targets)
        torch.stack([*losses.values()]).sum().backward()
        optimizer.step()

    return call


def inference(name: str, config: Config, canvas: tuple[int, int], batch: Batch, device: str) -> Call:
    """Return a call that detects, without masks of whole images, which both have after it."""
    model = prepared(name, config, canvas, device).eval().requires_grad_(False)
    if name.startswith("opsmith"):
        predictor = Predictor(model, config, torch.device(device), graph=name == "opsmith")
        return lambda: predictor(batch)
    images, _ = as_theirs(batch)
    model.transform.postprocess = lambda result, *_: result  # ours has no pasting in the model

    def call() -> Any:
        with torch.inference_mode(), autocast(torch.device(device), config.solver.precision):
            return model(images)

    return call


def warmed(make: Callable[[], Call]) -> Call:
    """Return a call that has been made often enough for kernels to be chosen and graphs to be captured."""
    call = make()
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    return call


def waits_of(call: Call) -> int:
    """Return how often a call makes the host wait for the GPU's stream."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings(), torch.profiler.profile(activities=activities) as profile:
        warnings.simplefilter("ignore")
        call()
    return sum(event.count for event in profile.key_averages() if event.key == "cudaStreamSynchronize")


def facts_of(make: Callable[[], Call]) -> dict[str, Any]:
    """Return what is known of a competitor alone: memory, waiting and times."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call = warmed(make)
    facts = {
        "peak_bytes": torch.cuda.max_memory_allocated() - before,
        "reserved_bytes": torch.cuda.max_memory_reserved() - before,
        "waits": waits_of(call),
    }
    return {**facts, "samples": [on_gpu(call) for _ in range(ROUNDS)]}


def case_on_gpu(model: str, batch_size: int, precision: str) -> tuple[Config, Batch]:
    """Return the configuration and the batch of a case, in whose precision PyTorch computes from here on."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    config = load_config(CONFIGS / f"{model}.yaml", [f"solver.precision={precision}", "solver.rate=1e-5"])
    return config, make_batch(batch_size, GPU_CANVAS, config.model, "cuda")


def measure_gpu(phase: str, model: str, batch_size: int, precision: str, without: Sequence[str]) -> dict[str, Any]:
    """Return a row: a phase of a model with a batch in a precision."""
    config, batch = case_on_gpu(model, batch_size, precision)
    kind = training if phase == "training" else inference
    left_out = [*without, *(["opsmith recompute"] if phase == "inference" else [])]
    names = [name for name in COMPETITORS if name not in left_out]
    makers = {name: partial(kind, name, config, GPU_CANVAS, batch, "cuda") for name in names}
    row: dict[str, Any] = {"phase": phase, "model": model, "batch": batch_size, "precision": precision}
    facts: dict[str, dict[str, Any]] = {}
    for name, make in makers.items():
        try:
            facts[name] = facts_of(make)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            print(f"{name} is left out: {str(error).splitlines()[0]}")
            row.setdefault("failed", {})[name] = str(error).splitlines()[0]
    samples = {name: each.pop("samples") for name, each in facts.items()}
    row["alone"] = False
    try:
        gc.collect()
        torch.cuda.empty_cache()
        calls = {name: warmed(makers[name]) for name in facts}
        samples = take_turns(calls, range(ROUNDS), on_gpu)
    except torch.OutOfMemoryError:
        row["alone"] = True
    row |= compare_samples(samples)
    row["images_per_second"] = {name: batch_size / row["seconds"][name]["median"] for name in samples}
    return row | {
        key: {name: each[key] for name, each in facts.items()} for key in ("peak_bytes", "reserved_bytes", "waits")
    }


def measure_cpu(batch_size: int) -> dict[str, Any]:
    """Return a row: inference of the small configuration."""
    config = load_config(CONFIGS / "digits_small.yaml")
    batch = make_batch(batch_size, CPU_CANVAS, config.model, "cpu")
    names = ("opsmith", "torchvision", "channels_last")
    calls = {name: inference(name, config, CPU_CANVAS, batch, "cpu") for name in names}
    results = {name: [call() for _ in range(3)][-1] for name, call in calls.items()}
    found = {"opsmith": int((results["opsmith"].labels > 0).sum())}
    found["torchvision"] = sum(len(each["labels"]) for each in results["torchvision"])
    row: dict[str, Any] = {"phase": "inference", "model": "digits_small", "batch": batch_size, "precision": "float32"}
    row |= compare_samples(take_turns(calls, range(40), on_cpu))
    return {**row, "detections": found}


def rows_of(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if given.device == "cpu":
        yield from (measure_cpu(size) for size in given.batch or (1, 8))
        return
    models = given.model or ("mask_rcnn_r50", "retinanet_r50")
    for model in models:
        for precision in given.precision or ("bfloat16", "tf32"):
            if given.only != "training":
                yield measure_gpu("inference", model, 1, precision, given.without)
            if given.only != "inference":
                for size in given.batch or (2, 4, 8, 16):
                    yield measure_gpu("training", model, size, precision, given.without)


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    faster = ", ".join(f"{values['median']:.2f}x {name}" for name, values in row["times_faster"].items())
    line = f"{row['model']} {row['phase']}, batch {row['batch']}, {row['precision']}: "
    line += f"{row['batch'] / row['seconds']['opsmith']['median']:.1f} images/s; {faster}"
    if "waits" in row:
        memory = {name: f"{value / 2**30:.1f} GB" for name, value in row["peak_bytes"].items()}
        line += f"; waits {row['waits']}, memory {memory}{', alone' if row['alone'] else ''}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, action="append", help="images of a step; several times for several")
    parser.add_argument("--model", action="append", choices=("mask_rcnn_r50", "retinanet_r50"))
    parser.add_argument("--precision", action="append", choices=("bfloat16", "tf32"))
    parser.add_argument(
        "--without", nargs="+", choices=COMPETITORS[1:], default=(), help="compiling takes a minute a case"
    )
    parser.add_argument("--only", choices=("training", "inference"))
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        record(rows_of(given), given.device, given.output, summary)


if __name__ == "__main__":
    main()
