"""What makes the demo fail, and what only gets a line."""

from __future__ import annotations

import dataclasses
import json

import pytest

from opsmith.checker.outcome import Finding, failed
from opsmith.demo.agreement import Agreement, Tally
from opsmith.report.demo.tables import summary_of


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def signs(results):
    return {finding.topic: finding.sign for finding in summary_of(results)}


def test_good_results_have_no_failures(results):
    assert results.failures == ()
    assert set(signs(results)) == {"built", "left out", "agree", "checked", "gradient", "speed", "trained"}
    assert "✗" not in signs(results).values()


def test_a_difference_fails(with_changes):
    agreement = Agreement(("jit", "cmake"), (Tally("opsmith::lltm_cell", 3, 1000, 1),), ("here: cmake differs",))
    found = with_changes(agreement=agreement)
    assert found.failures == ("the libraries do not agree: here: cmake differs",)
    assert signs(found)["agree"] == "✗"


def test_one_library_alone_fails(with_changes):
    agreement = Agreement(("jit", "this process"), (Tally("opsmith::lltm_cell", 3, 1000, 0),), ())
    (failure,) = with_changes(agreement=agreement).failures
    assert failure.startswith("fewer than two libraries")


def test_a_property_that_does_not_hold_fails(with_changes, check_of):
    wrong = failed(Finding("y[0] is inf, the reference has 40,000"))
    found = with_changes(checks=(check_of(wrong),))
    assert found.failures == ("opsmith.lltm_cell fails value",)
    assert signs(found)["checked"] == "✗"


def test_a_wrong_result_of_the_benchmark_fails(results, with_changes):
    (report,) = results.benchmarks
    own, *others = report.timings
    wrong = dataclasses.replace(own, time=None, error="wrong result, not timed: y[0] is 1")
    found = with_changes(benchmarks=(dataclasses.replace(report, timings=(wrong, *others)),))
    assert found.failures == ("opsmith.lltm_cell gives wrong results where it is timed",)
    assert signs(found)["speed"] == "✗"


def test_a_wrong_slope_fails(results, with_changes):
    slopes = tuple(dataclasses.replace(slope, found=slope.published) for slope in results.slopes)
    found = with_changes(slopes=slopes)
    assert found.failures == ("the gradient is wrong at a candidate gate of 0 on cpu",)
    assert signs(found)["gradient"] == "✗"


def test_too_little_accuracy_fails_but_for_a_quick_run(results, with_changes):
    runs = tuple(dataclasses.replace(run, accuracies=(0.5, 0.94)) for run in results.runs)
    found = with_changes(runs=runs)
    assert [failure.split(" reached")[0] for failure in found.failures] == ["opsmith C++", "reference"]
    assert signs(found)["trained"] == "✗"
    assert with_changes(runs=runs, quick=True).failures == ()


def test_being_slower_is_no_failure(with_changes, bench_of):
    found = with_changes(benchmarks=(bench_of(0.5, "slower"),))
    assert found.failures == ()
    assert signs(found)["speed"] == "\N{EN DASH}"


def test_json_has_everything_and_no_nan(results):
    content = json.loads(results.to_json(), parse_constant=refuse)
    assert content["failures"] == []
    assert content["slopes"][1]["published"] is None
    assert content["builds"][2]["left_out"] == "CMake is <not> installed"
    assert {"machine", "agreement", "checks", "benchmarks", "runs", "seed"} <= set(content)


@pytest.mark.parametrize("quick", [False, True])
def test_a_training_that_is_slower_with_the_kernels_fails(results, with_changes, quick):
    own, reference = results.runs
    found = with_changes(runs=(dataclasses.replace(own, step_ms=4.0), reference), quick=quick)
    assert found.failures == ("training with the kernels is slower than with plain PyTorch: 0.75x",)
    assert signs(found)["trained"] == "✗"


def test_the_summary_says_how_much_faster_the_training_is(results):
    (trained,) = [finding for finding in summary_of(results) if finding.topic == "trained"]
    assert "1.50x as fast as plain PyTorch" in trained.text
