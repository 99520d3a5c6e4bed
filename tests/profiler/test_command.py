"""`opsmith profile` and `opsmith.profile(op)`: what they find in real operators, exit codes, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from kit_profile import operators as kit

import opsmith
from opsmith.cli.profile import command
from opsmith.errors import ArgumentError
from opsmith.profiler.ladder import RoundLimits
from opsmith.profiler.options import ProfileOptions
from opsmith.profiler.result import CallProfile, Part
from opsmith.profiler.run import run_profile
from opsmith.subject.subject import subject_of
from some import some

pytestmark = pytest.mark.compile

OPERATORS = Path(__file__).parent / "kit_profile" / "operators.py"
# What one calls an operator with whose kernel waits two milliseconds unless it is told otherwise.
SIZES = ({"N": 8},)


def profiled(
    limits: RoundLimits, op: object = kit.spin, *phases: str, sizes: tuple[dict[str, int], ...] = SIZES
) -> list[CallProfile]:
    options = ProfileOptions(phases=phases or ("forward",), sizes=sizes)
    return list(run_profile(subject_of(op, devices=("cpu",)), "cpu", options, limits=limits).calls)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.mark.parametrize("phase", some(["forward", "backward", "recording"], 1, "profiles of one kernel"))
def test_a_kernel_that_waits_is_found_to_be_most_of_the_call(phase: str, quick: RoundLimits) -> None:
    (call,) = profiled(quick, kit.spin, phase)
    parts = {part.name: part for part in call.parts}
    assert parts["kernel"].time.low > 1.9e-3
    assert parts["kernel"].share > 0.5
    assert sum(part.share for part in call.parts) == pytest.approx(1, abs=0.5)
    assert call.phase == phase
    assert call.agreement is not None


def test_the_smallest_and_the_largest_size_are_profiled(quick: RoundLimits) -> None:
    small, large = profiled(quick, kit.rows, sizes=())
    assert small.workload != large.workload
    kernels: list[Part] = [part for call in (small, large) for part in call.parts if part.name == "kernel"]
    assert kernels[0].time.middle < kernels[1].time.middle


def test_an_operator_without_a_kernel_has_no_part_for_one(quick: RoundLimits) -> None:
    forward, backward = profiled(quick, kit.body_alone, "forward", "backward")
    assert "kernel" not in [part.name for part in forward.parts]
    assert "Python" in [part.name for part in forward.parts]
    assert any("no kernel for this device" in note for note in forward.notes)
    assert backward.parts == ()
    assert any("no kernel for this device computes" in note for note in backward.notes)


def test_an_operator_that_writes_to_its_argument_is_profiled_as_it_is_called(quick: RoundLimits) -> None:
    subject = subject_of(
        kit.add_one, examples=[{"x": torch.zeros(8, dtype=torch.int32), "by": [1], "times": 3}], devices=("cpu",)
    )
    (call,) = run_profile(subject, "cpu", limits=quick).calls
    assert {"Python", "kernel"} <= {part.name for part in call.parts}
    assert call.dtype in ("int32", "int64")
    assert any("not restored" in note for note in call.notes)


def test_of_a_function_the_whole_call_is_timed() -> None:
    report = opsmith.profile(kit.plain, reference=torch.sin, examples=kit.calls, device="cpu", phases="forward")
    (call,) = report.calls
    assert call.parts == ()
    assert call.whole.middle > 0
    assert "only the whole call can be timed" in str(report)


def test_the_command_prints_a_table_and_writes_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    arguments = (f"{OPERATORS}::spin", "--device", "cpu", "--size", "N=8", "--phase", "forward", "--trace", trace)
    done = run(*arguments)
    assert done.output.splitlines()[0].startswith("kit_profile.spin ")
    assert "N 8, float32, forward: one call takes " in done.output
    assert "the kernel itself" in done.output
    # Whether the parts add up is for the machine to say, which may be busy; that it is obeyed is for this test.
    assert done.exit_code == int("  ! the parts add up" in done.output)
    assert any(event.get("name") == "kit_profile::spin" for event in json.loads(trace.read_text())["traceEvents"])


def test_the_command_prints_json_alone() -> None:
    done = run(f"{OPERATORS}::spin", "--device", "cpu", "--size", "N=8", "--phase", "forward", "--json")
    (report,) = json.loads(done.stdout)
    assert report["operator"] == "kit_profile.spin"
    assert done.exit_code == int(not report["ok"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([f"{OPERATORS}::none"], "has no 'none'"),
        ([f"{OPERATORS}::spin", "--phase", "sideways"], "unknown phase 'sideways'; the phases are forward, recording"),
        ([f"{OPERATORS}::spin", "--size", "M=8"], "has no size M"),
        ([f"{OPERATORS}::spin", "--size", "N"], "write names and whole numbers"),
        ([f"{OPERATORS}::spin", "--dtype", "int9"], "unknown element type 'int9'"),
        ([f"{OPERATORS}::spin", "--import", "no_such_module"], "--import no_such_module"),
        ([OPERATORS, "--trace", "t.json"], "--trace is for one operator"),
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[object], message: str) -> None:
    done = run(*arguments, "--device", "cpu")
    assert message in done.output
    assert done.exit_code == 2


def test_several_operators_have_several_reports() -> None:
    with pytest.raises(ArgumentError, match="trace= belongs to one operator"):
        opsmith.profile([kit.spin], trace="t.json", device="cpu")
    reports = opsmith.profile([kit.spin], device="cpu", sizes=SIZES, phases=["forward"])
    assert [report.operator for report in reports] == ["kit_profile.spin"]
