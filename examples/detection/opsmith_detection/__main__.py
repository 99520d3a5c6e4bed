"""`python -m opsmith_detection`: train, eval, predict, demo."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
from torch.distributed.elastic.multiprocessing.errors import record

from opsmith_detection.config import Config, load_config
from opsmith_detection.data.digits import make_digits
from opsmith_detection.data.loader import Batches
from opsmith_detection.engine.distributed import World, join
from opsmith_detection.engine.training import Training, evaluate, load_dataset
from opsmith_detection.errors import DetectionError
from opsmith_detection.predict import list_images, load_run, predict_images

_CONFIGS = Path(__file__).parents[1] / "configs"
# What a command says at its interruption.
_GOES_ON = {
    "train": ": --resume goes on after the last checkpoint",
    "demo": ": the same command goes on after the last checkpoint",
}

_PATH = click.Path(path_type=Path)
_config = click.option("--config", "file", type=_PATH, help="A YAML file, such as configs/digits.yaml.")
_device = click.option("--device", help="cpu, cuda or cuda:1; the GPU, if there is one, by default.")
_overrides = click.argument("overrides", nargs=-1, metavar="[NAME=VALUE]...")
_checkpoint = click.option("--checkpoint", type=_PATH, required=True, help="A checkpoint, or the folder of a run.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Train and use Mask R-CNN and RetinaNet. With several GPUs: torchrun --nproc-per-node 8 -m opsmith_detection train."""


@main.command()
@_config
@click.option("--resume", is_flag=True, help="Go on after the newest checkpoint, if there is one.")
@_device
@_overrides
def train(file: Path | None, resume: bool, device: str | None, overrides: tuple[str, ...]) -> None:
    """Train a model. NAME=VALUE replaces entries of the configuration, such as solver.rate=0.01."""
    _train(load_config(file, overrides), device, resume=resume)


@main.command(name="eval")
@_checkpoint
@_device
@_overrides
def evaluate_checkpoint(checkpoint: Path, device: str | None, overrides: tuple[str, ...]) -> None:
    """Measure average precision on the test images of the run's configuration."""
    with join(device) as world:
        predictor, categories = load_run(checkpoint, world.device, overrides)
        dataset = load_dataset(predictor.config, "test", categories)
        tests = Batches(dataset, predictor.config, world, training=False)
        for name, value in evaluate(predictor, tests, world).items():
            click.echo(f"{name:10} {value:.4f}")


@main.command()
@_checkpoint
@click.option("--output", type=_PATH, default=Path("predictions"), show_default=True)
@click.option("--threshold", default=0.5, show_default=True, help="The lowest score of what is drawn and written.")
@_device
@click.argument("sources", nargs=-1, required=True, type=_PATH)
def predict(checkpoint: Path, output: Path, threshold: float, device: str | None, sources: tuple[Path, ...]) -> None:
    """Find objects in images, or in those of folders: pictures, and predictions.json in COCO's format."""
    _refuse_torchrun("predict")
    with join(device) as world:
        paths = list_images(sources)
        predictor, categories = load_run(checkpoint, world.device)
        speed = predict_images(predictor, paths, output, categories, threshold)
    click.echo(f"{len(paths)} images in {output}: {speed:.1f} images/s")


@main.command()
@_config
@click.option("--images", default=2000, show_default=True, help="How many images are made, a fifth of them for tests.")
@click.option(
    "--minimum", default=0.8, show_default=True, help="AP50 (of masks, if there are some) below which the demo fails."
)
@_device
@_overrides
def demo(file: Path | None, images: int, minimum: float, device: str | None, overrides: tuple[str, ...]) -> None:
    """Make images of handwritten digits, train on them, find the digits of test images, and write a report.

    The configuration is configs/digits_small.yaml, unless another one is given. A run that is there already goes on, or is
    measured again if it is complete.
    """
    _refuse_torchrun("demo")
    config = load_config(file or _CONFIGS / "digits_small.yaml", overrides)
    began = time.perf_counter(), time.process_time()
    folder = config.data.train.parent
    with click.progressbar(length=images, label="digits", file=sys.stderr) as bar:
        make_digits(folder, images, config.data.canvases[0], progress=lambda done, _: bar.update(done - bar.pos))
    result = _train(config, device, resume=True)
    with join(device) as world:
        predictor, categories = load_run(config.output, world.device)
        paths, output = list_images([folder / "test"])[:20], config.output / "predictions"
        speed = predict_images(predictor, paths, output, categories)
    minutes, processor_minutes = (time.perf_counter() - began[0]) / 60, (time.process_time() - began[1]) / 60
    click.echo(f"{len(paths)} pictures of predictions in {output}, {speed:.1f} images/s")
    kind = "mask" if config.model.has_masks else "box"
    precision, precision_50 = result[f"{kind}/AP"], result[f"{kind}/AP50"]
    time_taken = f"{minutes:.1f} minutes ({processor_minutes:.1f} of processor time)"
    click.echo(f"{kind} AP50 {precision_50:.3f}, AP {precision:.3f} in {time_taken}")
    if not precision_50 >= minimum:  # nor if it is NaN
        raise click.ClickException(f"{kind} AP50 is {precision_50:.3f}, at least {minimum} was expected")


def _refuse_torchrun(command: str) -> None:
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise click.UsageError(f"{command} runs in one process: start it without torchrun, which is for train and eval")


def _train(config: Config, device: str | None, *, resume: bool) -> dict[str, float]:
    with join(device) as world:
        return _train_in(world, config, resume=resume)


def _train_in(world: World, config: Config, *, resume: bool) -> dict[str, float]:
    """Train among processes that have been joined. `join` asks for a function: its models are gone when it returns."""
    training = Training(config, world, resume=resume)
    result = training.run()
    if world.size == 1:
        try:
            from opsmith_detection.report import write_report
        except ImportError as error:
            click.echo(f"no report: {error}; pip install 'opsmith-detection[report]'")
        else:
            click.echo(f"report: {write_report(training)}")
    return result


def _run() -> None:
    """Run a command. What is wrong with a configuration, the data or a file is said in a line, without a traceback."""
    try:
        record(main)(standalone_mode=False)  # torchrun shows what a process recorded as it died
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(f"interrupted{_GOES_ON.get(' '.join(sys.argv[1:2]), '')}")
    except DetectionError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        click.echo(f"error: {error.filename}: {error.strerror}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    _run()
