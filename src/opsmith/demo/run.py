"""Runs the demo from beginning to end: build, compare, check, time, train."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from opsmith import _env
from opsmith._override import overridden
from opsmith.benchmark.api import bench
from opsmith.benchmark.result import BenchReport
from opsmith.build.devices import wanted_devices
from opsmith.build.discover import discover
from opsmith.build.prepare import Prepared, prepare
from opsmith.checker.api import check
from opsmith.checker.as_json import machine_facts
from opsmith.checker.report import Report
from opsmith.demo.agreement import Agreement, compare_builds, make_calls
from opsmith.demo.builds import Build, build_all
from opsmith.demo.digits import Digits
from opsmith.demo.results import Results
from opsmith.demo.screen import Screen
from opsmith.demo.slopes import measure_slopes
from opsmith.demo.training import Run, train, variants
from opsmith.spec.definition import Device
from opsmith.toolchain import Toolchain

__all__ = ["SEED", "Options", "run_demo"]

SEED = 0

# The tutorial's size, and one where the matrix product has something to do.
_SIZES = ({"B": 16, "I": 32, "S": 128}, {"B": 128, "I": 256, "S": 512})
_BENCH_S, _QUICK_BENCH_S = 30.0, 6.0
# What a quick run checks, and how long each property may take; a whole one checks every property.
_QUICK_PROPERTIES = ("value", "gradient")
_QUICK_CHECK_S = 5.0

# Without a live line, every so many epochs are printed.
_EPOCHS_A_LINE = 10


@dataclass(frozen=True)
class Options:
    """How much a run does; `quick` means fewer calls, properties and seconds, and no accuracy to be reached."""

    output: Path
    epochs: int
    quick: bool = False


def run_demo(options: Options, digits: Digits, screen: Screen) -> Results:
    """Run everything, with the libraries below `options.output`, and return what was found.

    Raises OpsmithError if something cannot be built or loaded; what is merely wrong is in the results.
    """
    from opsmith.ops.lltm import lltm_cell

    started = time.perf_counter()
    shutil.rmtree(options.output / "store", ignore_errors=True)
    # A store of its own makes the JIT build from nothing, and leaves the user's alone. What it builds, the rest uses.
    with overridden("OPSMITH_CACHE_DIR", str((options.output / "store").absolute())):
        (group,) = discover(lltm_cell.definition.module)
        wanted = wanted_devices(group.definitions)
        # Identifies the compilers once, so that no build is charged for it.
        prepared = prepare(group, wanted)
        devices = tuple(device for device in wanted if device not in prepared.missing)
        machine = _machine(prepared.toolchain)
        gpu_missing = _why_no_gpu(prepared)
        _introduce(machine, gpu_missing, screen)

        screen.section("LLTM is built three ways, each from scratch")
        builds = build_all(group, devices, options.output / "lib", screen)
        screen.show(builds)
        _build_bridge(screen)
        agreement = _compare(builds, devices, machine["threads"], options, screen)
        checks = _check(devices, options, screen)
        screen.section("The gradient holds where the published one fails")
        slopes = measure_slopes(devices)
        screen.show(slopes)
        benchmarks = _time(devices, machine["threads"], options, screen)
        runs, training_build_s = _train(devices, digits, options, screen)
    return Results(
        machine=machine,
        devices=devices,
        gpu_missing=gpu_missing,
        quick=options.quick,
        seed=SEED,
        builds=builds,
        agreement=agreement,
        checks=checks,
        slopes=slopes,
        benchmarks=benchmarks,
        training_build_s=training_build_s,
        runs=runs,
        seconds=time.perf_counter() - started,
    )


def _machine(toolchain: Toolchain) -> dict[str, Any]:
    tools = {"C++": f"{toolchain.host.kind} {toolchain.host.version}"}
    if toolchain.cuda is not None:
        tools["CUDA"] = f"nvcc {toolchain.cuda.version}"
    if toolchain.rocm is not None:
        tools["ROCm"] = f"hipcc {toolchain.rocm.version}"
    return {**machine_facts(), "threads": torch.get_num_threads(), "compilers": tools}


def _introduce(machine: dict[str, Any], gpu_missing: str | None, screen: Screen) -> None:
    compilers = ", ".join(machine["compilers"].values())
    screen.title("opsmith demo", "one definition, three builds, a trained model")
    about = f"{machine['processor']}, {machine['threads']} threads, PyTorch {machine['torch']}, {compilers}"
    screen.line(about, style="dim")
    if gpu_missing is not None:
        screen.line(f"no GPU in this run: {gpu_missing}", style="dim")


def _build_bridge(screen: Screen) -> None:
    """Build now what is otherwise built in the background: it would disturb what is timed, and would not yet serve it."""
    if _env.read("OPSMITH_BRIDGE") == "off":
        return
    from opsmith.runtime.bridge_library import build_bridge

    screen.section("The fast path of calls and gradients is built, once for each torch")
    started = time.perf_counter()
    with screen.step("building") as step:
        step.advance(0, 1, "the bridge, against PyTorch's C++ headers")
        build_bridge()
    screen.line(
        f"built in {time.perf_counter() - started:.1f} s; elsewhere this happens in the background of the first build",
        style="dim",
    )


def _compare(
    builds: Sequence[Build], devices: Sequence[Device], threads: int, options: Options, screen: Screen
) -> Agreement:
    from opsmith.ops.lltm import lltm_cell, lltm_cell_backward, lltm_gates, lltm_gates_backward

    screen.section("The libraries are compared bit by bit, each in its own process")
    lltm_cell.load()
    operators = (lltm_gates, lltm_gates_backward, lltm_cell, lltm_cell_backward)
    calls = list(make_calls(operators, devices, seed=SEED, quick=options.quick))
    with screen.step("running") as step:
        step.advance(0, 1, f"{len(calls)} calls in each library")
        agreement = compare_builds(builds, calls, threads)
    screen.show(agreement)
    return agreement


def _check(devices: Sequence[Device], options: Options, screen: Screen) -> tuple[Report, ...]:
    from opsmith.ops.lltm import lltm_cell, lltm_gates

    screen.section("The operators are checked against their definition's body")
    operators = (lltm_gates, lltm_cell)
    properties, seconds = (_QUICK_PROPERTIES, _QUICK_CHECK_S) if options.quick else (None, None)
    reports = []
    with screen.step("checking", len(operators)) as step:
        for done, operator in enumerate(operators):
            step.advance(done, len(operators), operator.definition.name)
            reports.append(check(operator, devices=devices, properties=properties, seconds=seconds, seed=SEED))
    for report in reports:
        screen.show(report)
    return tuple(reports)


def _time(devices: Sequence[Device], threads: int, options: Options, screen: Screen) -> tuple[BenchReport, ...]:
    from opsmith.ops.lltm import lltm_cell

    screen.section(f"Forward and backward are timed against plain PyTorch, on {threads} threads")
    seconds = _QUICK_BENCH_S if options.quick else _BENCH_S
    reports = []
    with screen.step("timing", len(devices)) as step:
        for done, device in enumerate(devices):
            step.advance(done, len(devices), f"lltm_cell on {device}")
            reports.append(
                bench(
                    lltm_cell,
                    device=device,
                    dtypes=("float32",),
                    sizes=_SIZES,
                    phases=("forward", "backward"),
                    against=("eager",),
                    seconds=seconds,
                    seed=SEED,
                )
            )
    for report in reports:
        screen.show(report)
    return tuple(reports)


def _train(
    devices: Sequence[Device], digits: Digits, options: Options, screen: Screen
) -> tuple[tuple[Run, ...], float]:
    """Return the trainings, and how long it took to build the operator that only they call."""
    from opsmith.ops.lltm import lltm_sequence

    total = options.epochs
    screen.section(f"An LLTM learns to read digits, row by row: {total} epochs, seed {SEED}")
    started = time.perf_counter()
    with screen.step("building") as step:
        step.advance(0, 1, "lltm_sequence, which runs all steps of a sequence in one call")
        lltm_sequence.load()
    build_s = time.perf_counter() - started
    screen.line(f"lltm_sequence is built in {build_s:.1f} s, before the clock starts", style="dim")
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
    screen.show(runs)
    return tuple(runs), build_s


def _why_no_gpu(prepared: Prepared) -> str | None:
    if "cuda" in prepared.plan.extension.devices:
        return None
    if not torch.cuda.is_available():
        return "this PyTorch does not see one"
    return prepared.missing.get("cuda", "the operators have no kernel for it")
