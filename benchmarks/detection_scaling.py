"""Measures how examples/detection scales: images/s on 1, 2, 4 and 8 GPUs of one host, what of a step is communication, the
time from launch to the first step, and that a run goes on after one of its processes was killed.

    python benchmarks/detection_scaling.py --gpus 4 --output benchmarks/results/detection_scaling.json
    python benchmarks/detection_scaling.py --device cpu --gpus 2 --steps 1 --config digits_small.yaml   # tries it, with Gloo

The batch is made up and lies on the device, so the loader has no part in images/s. With DistributedDataParallel the least
and the largest number of GPUs start with an empty store too, in which the processes build the operators.
Efficiency is images/s over those of one GPU times the number of GPUs, both in this run.
"""

# ruff: noqa: E402 -- the package of examples/detection is found after its folder is named

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "detection"
sys.path[:0] = [str(ROOT / "src"), str(EXAMPLE)]

from opsmith_detection.config import Config, load_config
from opsmith_detection.data.digits import make_digits
from opsmith_detection.engine.distributed import World, join, wrap
from opsmith_detection.engine.optimizer import build_optimizer
from opsmith_detection.engine.step import TrainStep
from opsmith_detection.engine.training import prepare
from opsmith_detection.models import build_model
from opsmith_detection.structures import Batch, Targets

KINDS = ("ddp", "fsdp")
OBJECTS = 8  # of an image, as COCO's have on average
WARM_UP = 16  # steps: DistributedDataParallel takes 11 before a graph
PROFILED = 3
PATIENCE_S = 600.0
# After so long without a line of progress a process tells where it stands, and ends.
SILENCE_S = 120.0
# A training that lasts until it is killed, and a few steps more.
KILLED = {"solver.steps": 60, "solver.checkpoint_every": 10, "solver.evaluate_every": 60, "solver.log_every": 10}


def main() -> None:
    """Start the processes of each number of GPUs, or be one of them."""
    options = parse()
    if "RANK" in os.environ:
        with join(options.device) as world:
            measure(options, world)
        return
    counts = [count for count in (1, 2, 4, 8) if count <= options.gpus]
    if options.device == "cuda" and torch.cuda.device_count() < options.gpus:
        sys.exit(f"--gpus {options.gpus}: PyTorch finds {torch.cuda.device_count()}")
    result: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "batch": read_config(options, "ddp").data.batch,
        "rows": [],
    }
    for row in rows(options, counts):
        result["rows"].append(row)
        print(summary(row), flush=True)
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n")
    if max(counts) > 1:
        result["killed"] = kill_and_resume(options, max(counts))
        print(result["killed"], flush=True)
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count(), help="the most, a power of two")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--config", default="mask_rcnn_r50.yaml", help="a file of examples/detection/configs")
    parser.add_argument("--batch", type=int, help="images of a GPU; the configuration's, 8, by default")
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)  # for the processes
    parser.add_argument("--launched", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first-step-only", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def rows(options: argparse.Namespace, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield what was measured of each way and number of GPUs."""
    with tempfile.TemporaryDirectory(prefix="opsmith-scaling-") as folder:
        for kind in KINDS:
            alone: dict[str, Any] | None = None
            for count in counts:
                first_step_s = {}
                if kind == KINDS[0] and count in (min(counts), max(counts)):
                    empty = Path(folder, str(count))
                    first_step_s["cold"] = launch(options, kind, count, empty, first_step_only=True)["first_step_s"]
                row = launch(options, kind, count, Path(folder, str(min(counts))))
                row["first_step_s"] = first_step_s = {**first_step_s, "warm": row["first_step_s"]}
                alone = alone or row
                one = alone["images_per_second"]["median"]
                row["efficiency"] = row["images_per_second"]["median"] / (count * one)
                row["first_step_ratio"] = {
                    key: value / alone["first_step_s"][key] for key, value in first_step_s.items()
                }
                yield row


def launch(
    options: argparse.Namespace, kind: str, count: int, folder: Path, *, first_step_only: bool = False
) -> dict[str, Any]:
    """Return what `count` processes measure with a store in a folder."""
    folder.mkdir(exist_ok=True)
    row = folder / "row.json"
    row.unlink(missing_ok=True)
    given = ["--kind", kind, "--row", str(row), "--launched", repr(time.time()), "--device", options.device]
    given += ["--first-step-only"] if first_step_only else []
    given += ["--config", options.config, "--steps", str(options.steps), "--rounds", str(options.rounds)]
    given += ["--batch", str(options.batch)] if options.batch else []
    environment = {**os.environ, "OPSMITH_CACHE_DIR": str(folder / "store")}
    words = [*torchrun(count), __file__, *given]
    done = subprocess.run(words, env=environment, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{kind} on {count}: the processes ended with {done.returncode}")
    return json.loads(row.read_text())  # type: ignore[no-any-return]


def torchrun(count: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]


def read_config(options: argparse.Namespace, kind: str) -> Config:
    overrides = [f"distributed={kind}", *([f"data.batch={options.batch}"] if options.batch else [])]
    return load_config(EXAMPLE / "configs" / options.config, overrides)


def measure(options: argparse.Namespace, world: World) -> None:
    """Train on a made-up batch, as one of the processes; the first writes what was measured."""
    told = Progress(options, world)
    config = read_config(options, options.kind)
    prepare(config)
    model = build_model(config.model).to(world.device)
    cuda = world.device.type == "cuda"
    stream = torch.cuda.Stream(world.device) if cuda else None
    with torch.cuda.stream(stream):
        wrapped = wrap(model, config, world)
    told("has its model")
    images = config.data.batch * world.size
    optimizer = build_optimizer(model, config.solver)
    step = TrainStep(wrapped, optimizer, config, images=images, rank=world.rank, stream=stream)
    batches = repeat(made_up(config, world))
    model.train()
    step(batches, 0)
    wait(world)
    first_step_s = time.time() - options.launched
    told("has made its first step")
    if options.first_step_only:
        faulthandler.cancel_dump_traceback_later()
        if world.leads:
            options.row.write_text(json.dumps({"first_step_s": first_step_s}))
        return
    number = 1
    while number < (WARM_UP if cuda else 2):
        step(batches, number)
        number += 1
        told(f"has begun {number} steps", is_news=False)
    wait(world)
    told("is warm")
    speeds = []
    for _ in range(options.rounds):
        wait(world)
        begun = time.perf_counter()
        for _ in range(options.steps):
            step(batches, number)
            number += 1
        wait(world)
        speeds.append(images * options.steps / (time.perf_counter() - begun))
        told(f"trains {speeds[-1]:.1f} images/s")
    shares = communication(step, batches, number, world) if cuda else {}
    step.read_losses()  # raises where one is not finite
    faulthandler.cancel_dump_traceback_later()
    if world.leads:
        median, low, high = statistics.median(speeds), min(speeds), max(speeds)
        speed = {"median": median, "min": low, "max": high, "count": len(speeds)}
        found = {"kind": options.kind, "gpus": world.size, "graph": cuda, "images_per_second": speed}
        found |= {"first_step_s": first_step_s, "communication": shares}
        options.row.write_text(json.dumps(found))


class Progress:
    """Prints how far a process is, and where it stands when it gets no further."""

    def __init__(self, options: argparse.Namespace, world: World) -> None:
        self._name, self._launched, self._leads = f"{options.kind} on {world.size}", options.launched, world.leads
        self("has joined")

    def __call__(self, what: str, *, is_news: bool = True) -> None:
        faulthandler.dump_traceback_later(SILENCE_S, exit=True)
        if is_news and self._leads:
            print(f"  {time.time() - self._launched:5.1f} s  {self._name} {what}", file=sys.stderr, flush=True)


def made_up(config: Config, world: World) -> Batch:
    """Return a batch of the first canvas, with objects of all sizes."""
    data, random = config.data, torch.Generator().manual_seed(world.rank)
    height, width = data.canvases[0]
    side = torch.rand(data.batch, OBJECTS, 2, generator=random) * 0.4 + 0.02
    corner = torch.rand(data.batch, OBJECTS, 2, generator=random) * (1 - side)
    scale = torch.tensor([width, height, width, height])
    boxes = torch.zeros(data.batch, data.max_objects, 4)
    boxes[:, :OBJECTS] = torch.cat([corner, corner + side], -1) * scale
    labels = torch.zeros(data.batch, data.max_objects, dtype=torch.int64)
    labels[:, :OBJECTS] = torch.randint(1, config.model.classes + 1, (data.batch, OBJECTS), generator=random)
    masks = torch.zeros(data.batch, data.max_objects, data.mask_resolution, data.mask_resolution, dtype=torch.uint8)
    masks[:, :OBJECTS] = 255
    images = torch.randint(0, 256, (data.batch, 3, height, width), generator=random, dtype=torch.uint8)
    sizes = torch.tensor([[height, width]] * data.batch, dtype=torch.float32)
    targets = Targets(*(each.to(world.device) for each in (boxes, labels, masks)))
    return Batch(
        images.to(world.device), sizes.to(world.device), torch.arange(data.batch, device=world.device), targets
    )


def wait(world: World) -> None:
    """Wait until all processes have come here, and their GPUs are done."""
    if world.device.type == "cuda":
        torch.cuda.synchronize()
    if world.size > 1:
        dist.barrier()


def communication(step: TrainStep, batches: Iterator[Batch], number: int, world: World) -> dict[str, float]:
    """Return which parts of some steps' time NCCL's kernels run, and run with no other kernel beside them."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for index in range(PROFILED):
            step(batches, number + index)
        wait(world)
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    spans = [(event.time_range.start, event.time_range.end, "nccl" in event.name.lower()) for event in kernels]
    if not spans:
        return {}
    whole = max(end for _, end, _ in spans) - min(begin for begin, _, _ in spans)
    nccl = covered((begin, end) for begin, end, is_nccl in spans if is_nccl)
    other = covered((begin, end) for begin, end, is_nccl in spans if not is_nccl)
    either = covered((begin, end) for begin, end, _ in spans)
    return {"running": nccl / whole, "alone": (either - other) / whole}


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return how much of an axis intervals cover."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def kill_and_resume(options: argparse.Namespace, count: int) -> dict[str, Any]:
    """Kill one of the processes of a training with SIGKILL, and let another training go on."""
    config = "digits.yaml" if options.device == "cuda" else "digits_small.yaml"
    with tempfile.TemporaryDirectory(prefix="opsmith-killed-") as folder:
        canvas = load_config(EXAMPLE / "configs" / config).data.canvases[0]
        make_digits(Path(folder, "digits"), 200, canvas)
        output = Path(folder, "run")
        entries = {**KILLED, "output": output, "data.train": f"{folder}/digits/train.json"}
        entries |= {"data.test": f"{folder}/digits/test.json", "data.workers": 2, "data.batch": 4}
        words = [*torchrun(count), "-m", "opsmith_detection", "train", "--device", options.device]
        words += [
            "--config",
            str(EXAMPLE / "configs" / config),
            *(f"{name}={value}" for name, value in entries.items()),
        ]
        path = os.pathsep.join([str(ROOT / "src"), str(EXAMPLE), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        training = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + PATIENCE_S
        while not list(output.glob("*.pt")) and training.poll() is None and time.monotonic() < until_s:
            time.sleep(0.1)
        if training.poll() is not None or time.monotonic() > until_s:
            training.kill()
            sys.exit("the training to be killed made no checkpoint")
        os.kill(children(training.pid)[-1], signal.SIGKILL)
        killed_s = time.monotonic()
        code = training.wait(timeout=PATIENCE_S)
        ended_s = time.monotonic() - killed_s
        left = sorted(path.name for path in output.glob("*.pt"))
        resumed = subprocess.run([*words, "--resume"], env=environment, timeout=PATIENCE_S, check=False)
        logged = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
        shutil.rmtree(output)
    return {
        "gpus": count,
        "exit_code": code,
        "ended_s": ended_s,
        "checkpoints": left,
        "resumed_exit_code": resumed.returncode,
        "last_step": max(line["step"] for line in logged),
    }


def children(process: int) -> list[int]:
    """Return the numbers of a process's children."""
    return [
        int(one) for task in Path(f"/proc/{process}/task").iterdir() for one in (task / "children").read_text().split()
    ]


def summary(row: dict[str, Any]) -> str:
    """Return a row's line."""
    speed, ratio, shares = row["images_per_second"], row["first_step_ratio"], row["communication"]
    parts = "".join(f", NCCL {name} {part:.1%}" for name, part in shares.items())
    first = ", ".join(f"{key} {value:.1f} s ({ratio[key]:.2f}x)" for key, value in row["first_step_s"].items())
    return (
        f"{row['kind']} on {row['gpus']}: {speed['median']:.1f} images/s [{speed['min']:.1f}, {speed['max']:.1f}], "
        f"efficiency {row['efficiency']:.1%}{parts}; first step after launch: {first}"
    )


if __name__ == "__main__":
    main()
