"""What makes the demo fail, and what only gets a line."""

from __future__ import annotations

import dataclasses
import json

from opsmith.demo.agreement import Agreement, Tally


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def signs(results):
    return {finding.topic: finding.sign for finding in results.summary}


def test_good_results_have_no_failures(results):
    assert results.failures == ()
    assert set(signs(results)) == {"built", "left out", "agree", "exact", "gradient", "speed", "trained"}
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


def test_an_error_that_is_too_large_fails(results, with_changes):
    first, *others = results.errors
    found = with_changes(errors=(*others, dataclasses.replace(first, error_eps=float("nan"))))
    assert len(found.failures) == 1 and "lltm_cell in float64" in found.failures[0]
    assert signs(found)["exact"] == "✗"


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


def test_being_slower_is_no_failure(results, with_changes):
    slower = dataclasses.replace(results.timings[1], ratio=dataclasses.replace(results.timings[1].ratio, median=0.5))
    found = with_changes(timings=(results.timings[0], slower))
    assert found.failures == ()
    assert signs(found)["speed"] == "\N{EN DASH}"


def test_json_has_everything_and_no_nan(results):
    content = json.loads(results.to_json(), parse_constant=refuse)
    assert content["failures"] == []
    assert content["slopes"][1]["published"] is None
    assert content["builds"][2]["left_out"] == "CMake is <not> installed"
    assert {"machine", "agreement", "errors", "timings", "runs", "seed"} <= set(content)
