"""The demo from beginning to end: build, agree, check, time, train, report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from opsmith import _env
from opsmith.build.devices import wanted_devices
from opsmith.build.prepare import Prepared
from opsmith.demo.agreement import Agreement, agreement_table, compare_builds
from opsmith.demo.builds import Build, build_all, build_table, find_group, prepare_group
from opsmith.demo.cases import make_cases
from opsmith.demo.digits import Digits, load_digits
from opsmith.demo.exactness import error_table, measure_all
from opsmith.demo.machine import describe_machine
from opsmith.demo.report import write_report
from opsmith.demo.results import Results
from opsmith.demo.screen import Screen
from opsmith.demo.slopes import measure_slopes, slope_table
from opsmith.demo.table import BAD
from opsmith.demo.timing import SIZES, Timing, time_all, timing_table
from opsmith.demo.training import TARGET, Run, train, training_table, variants
from opsmith.spec.definition import Device

__all__ = ["Options", "run_demo"]

SEED = 0

_ROUNDS, _QUICK_ROUNDS = 40, 5

# Where nobody watches a live line, every so many epochs get a line of their own.
_EPOCHS_A_LINE = 10


@dataclass(frozen=True)
class Options:
    """What a run is asked for; `quick` means fewer cases and rounds, and no accuracy to be reached."""

    output: Path
    epochs: int
    quick: bool = False


def run_demo(options: Options, screen: Screen) -> Results:
    """Run everything, write the report into `options.output`, and return what was found.

    Raises OpsmithError where something cannot be built or loaded; what is merely wrong is in the results.
    """
    started = time.perf_counter()
    shutil.rmtree(options.output / "store", ignore_errors=True)
    # A store of its own makes the JIT build from nothing, and leaves the user's alone. What it builds, the rest uses.
    with _env.overridden("OPSMITH_CACHE_DIR", str((options.output / "store").absolute())):
        group = find_group()
        prepared = prepare_group(group)
        devices = tuple(device for device in wanted_devices(group.definitions) if device not in prepared.missing)
        machine = describe_machine(prepared.toolchain)
        compilers = ", ".join(machine.compilers.values())
        screen.title("opsmith demo", "one definition, three builds, a trained model")
        screen.line(
            f"{machine.processor}, {machine.threads} threads, PyTorch {machine.torch}, {compilers}", style="dim"
        )
        gpu_missing = _why_no_gpu(prepared)
        if gpu_missing is not None:
            screen.line(f"no GPU in this run: {gpu_missing}", style="dim")

        screen.section("LLTM is built three ways, each from nothing")
        builds = build_all(group, devices, options.output / "lib", screen)
        screen.table(build_table(builds, devices))
        _build_bridge(screen)
        agreement = _agree(builds, devices, machine.threads, options, screen)
        screen.section("Value and gradient are checked against the reference in float64")
        errors = measure_all(devices, seed=SEED)
        screen.table(error_table(errors))
        slopes = measure_slopes(devices)
        screen.section("The gradient holds where the published one fails")
        screen.table(slope_table(slopes))
        timings = _time(devices, machine.threads, options, screen)
        digits = load_digits(SEED)
        runs = _train(devices, digits, options, screen)
    results = Results(
        machine,
        devices,
        gpu_missing,
        options.quick,
        SEED,
        tuple(builds),
        agreement,
        tuple(errors),
        tuple(slopes),
        tuple(timings),
        tuple(runs),
        time.perf_counter() - started,
    )
    _conclude(results, digits, options, screen)
    return results


def _build_bridge(screen: Screen) -> None:
    """Build now what is otherwise built in the background: it would disturb what is timed, and would not yet serve it."""
    if _env.read("OPSMITH_BRIDGE") == "off":
        return
    from opsmith.runtime.bridge import build_bridge

    screen.section("Calls and gradients get their fast path, which is built once for each torch")
    started = time.perf_counter()
    with screen.step("building") as step:
        step.advance(0, 1, "the bridge, against PyTorch's C++ headers")
        build_bridge()
    screen.line(
        f"built in {time.perf_counter() - started:.1f} s; elsewhere this happens in the background of the first build",
        style="dim",
    )


def _agree(
    builds: Sequence[Build], devices: Sequence[Device], threads: int, options: Options, screen: Screen
) -> Agreement:
    screen.section("The libraries are compared to the last bit, each alone in a process")
    from opsmith.ops.lltm import lltm_cell

    lltm_cell.load()
    cases = make_cases(devices, seed=SEED, quick=options.quick)
    with screen.step("running") as step:
        step.advance(0, 1, f"{len(cases)} calls in each library")
        agreement = compare_builds(builds, cases, threads)
    screen.table(agreement_table(agreement))
    return agreement


def _time(devices: Sequence[Device], threads: int, options: Options, screen: Screen) -> list[Timing]:
    screen.section(f"Forward and backward are timed, on {threads} threads")
    rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    with screen.step("timing", len(SIZES) * len(devices)) as step:
        timings = time_all(devices, rounds=rounds, on_size=step.advance)
    screen.table(timing_table(timings, threads))
    return timings


def _train(devices: Sequence[Device], digits: Digits, options: Options, screen: Screen) -> list[Run]:
    total = options.epochs
    screen.section(f"An LLTM learns to read digits, row by row: {total} epochs, seed {SEED}")
    runs = []
    threads = torch.get_num_threads()
    # The products of a batch of digits are small: a second thread gains nothing, and waits where the machine is shared.
    torch.set_num_threads(1)
    for name, (recurrent, device) in variants(devices).items():
        with screen.step(name, total) as step:

            def show(epoch: int, loss: float, accuracy: float, name: str = name) -> None:
                text = f"{name}: epoch {epoch} of {total}, loss {loss:.4f}, test accuracy {accuracy:.1%}"
                step.advance(epoch, total, text, is_milestone=epoch % _EPOCHS_A_LINE == 0 or epoch == total)

            runs.append(train(name, recurrent, device, digits, total, seed=SEED, on_epoch=show))
    torch.set_num_threads(threads)
    screen.table(training_table(runs, digits, SEED))
    return runs


def _conclude(results: Results, digits: Digits, options: Options, screen: Screen) -> None:
    page = write_report(results, digits, options.output)
    screen.section("Summary")
    for finding in results.summary:
        screen.line(f"{finding.sign} {finding.topic:<10}  {finding.text}")
    if results.quick:
        screen.line(f"a quick run: the test accuracy is not held against the {TARGET:.0%} of a whole one", style="dim")
    for failure in results.failures:
        screen.line(f"{BAD} {failure}")
    screen.line(f"report: {page}   ({results.seconds:.0f} s)")


def _why_no_gpu(prepared: Prepared) -> str | None:
    if "cuda" in prepared.plan.extension.devices:
        return None
    if not torch.cuda.is_available():
        return "this PyTorch sees none"
    return prepared.missing.get("cuda", "the operators have no kernel for it")
