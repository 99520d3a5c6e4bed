"""A report and an earlier one: what is slower beyond the noise, what is not, and what cannot be compared at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from planted import CPU, GPU, around, large, report, small, timing, verdict

from opsmith.benchmark.as_json import read_reports, reports_as_json
from opsmith.benchmark.compare import compare_reports
from opsmith.benchmark.result import BenchReport
from opsmith.errors import ArgumentError
from opsmith.report.bench.changes import comparison_lines


def kind_of(before: BenchReport, now: BenchReport, **options: float) -> str:
    (change,) = compare_reports([before], [now], **options).changes
    return change.kind


def test_the_same_again_is_no_difference():
    found = compare_reports([large()], [large()])
    assert found.ok
    assert {change.kind for change in found.changes} == {"equal"}
    assert (found.lost, found.missing, found.new) == ((), (), ())


def test_slower_and_faster():
    assert kind_of(small(own=1e-5), small(own=1.2e-5)) == "slower"
    assert kind_of(small(own=1e-5), small(own=0.8e-5)) == "faster"
    assert not compare_reports([small(own=1e-5)], [small(own=1.2e-5)]).ok
    assert compare_reports([small(own=1e-5)], [small(own=0.8e-5)]).ok


def test_a_machine_that_is_slower_as_a_whole_is_no_regression():
    assert kind_of(small(own=1e-5, eager=3e-5), small(own=2e-5, eager=6e-5)) == "equal"


def test_an_operator_that_is_slower_is_seen_on_a_machine_that_is_slower():
    (change,) = compare_reports([small(own=1e-5, eager=3e-5)], [small(own=2e-5, eager=4e-5)]).changes
    assert change.kind == "slower"
    assert change.against == "eager"
    assert change.times_as_long.middle == pytest.approx(1.5)
    assert change.absolute.middle == pytest.approx(2.0)


def test_a_reference_that_has_changed_is_no_regression():
    assert kind_of(small(own=1e-5, eager=3e-5), small(own=1e-5, eager=2e-5)) == "equal"
    assert kind_of(small(own=1e-5, eager=3e-5), small(own=1e-5, eager=9e-5)) == "equal"


def test_without_the_reference_times_are_compared_as_they_are():
    def alone(seconds: float) -> BenchReport:
        return report(timing("N 4", "opsmith", seconds))

    (change,) = compare_reports([alone(1e-5)], [alone(1.2e-5)]).changes
    assert (change.kind, change.against) == ("slower", "")


def test_a_difference_within_the_noise_of_either_run_is_none():
    def noisy(own: float, noise: float) -> BenchReport:
        eager = replace(timing("N 4", "eager", 3e-5), verdict=verdict(3e-5 / own, noise=noise))
        return report(timing("N 4", "opsmith", own), eager)

    assert kind_of(noisy(1e-5, 0.01), noisy(1.1e-5, 0.01)) == "slower"
    assert kind_of(noisy(1e-5, 0.01), noisy(1.1e-5, 0.15)) == "equal"
    assert kind_of(noisy(1e-5, 0.15), noisy(1.1e-5, 0.01)) == "equal"


def test_an_uncertain_ratio_is_no_regression():
    def uncertain(own: float) -> BenchReport:
        eager = replace(timing("N 4", "eager", 3e-5), verdict=verdict(3e-5 / own, part=0.1))
        return report(timing("N 4", "opsmith", own), eager)

    assert kind_of(small(own=1e-5), small(own=1.1e-5)) == "slower"
    assert kind_of(uncertain(1e-5), uncertain(1.1e-5)) == "equal"


def test_warnings_of_both_runs_are_said():
    busy = replace(small(), warnings=("other programs took 50 %",))
    lines = list(comparison_lines(compare_reports([busy], [small()]), "old"))
    assert "! then: other programs took 50 %" in lines


def test_the_tolerance():
    assert kind_of(small(own=1e-5), small(own=1.08e-5)) == "slower"
    assert kind_of(small(own=1e-5), small(own=1.08e-5), tolerance=0.1) == "equal"


def test_many_sizes_make_each_less_certain():
    def of_sizes(count: int, own: float) -> BenchReport:
        parts = []
        for index in range(count):
            eager = replace(timing(f"N {index}", "eager", 3e-5), verdict=verdict(3e-5 / own, part=0.02))
            parts += [timing(f"N {index}", "opsmith", own), eager]
        return report(*parts)

    few = compare_reports([of_sizes(1, 1e-5)], [of_sizes(1, 1e-5)]).changes[0].times_as_long
    many = compare_reports([of_sizes(50, 1e-5)], [of_sizes(50, 1e-5)]).changes[0].times_as_long
    assert many.high - many.low > 1.5 * (few.high - few.low)


def test_on_a_gpu_the_clock_is_compared_too():
    before, now = small(machine=GPU), small(machine=GPU)
    slow_launch = tuple(
        replace(t, wall=around(2e-5)) if t.is_own else replace(t, wall_verdict=verdict(1.5)) for t in now.timings
    )
    found = compare_reports([before], [replace(now, timings=slow_launch)])
    assert [(change.clock, change.kind) for change in found.changes] == [("device", "equal"), ("wall", "slower")]


def test_what_was_there_and_is_not_is_named():
    one, other = timing("N 4", "opsmith", 1e-5), timing("N 8", "opsmith", 1e-5)
    found = compare_reports([report(one, other)], [report(one, timing("N 16", "opsmith", 1e-5))])
    assert found.missing == ("kit.smooth, float32, N 8, forward",)
    assert found.new == ("kit.smooth, float32, N 16, forward",)
    assert found.ok


def test_what_there_was_no_time_for_is_missing_and_no_regression():
    skipped = timing("N 8", "opsmith", 0, time=None, wall=None, error="not timed: there was no time left for it")
    one = timing("N 4", "opsmith", 1e-5)
    found = compare_reports([report(one, timing("N 8", "opsmith", 1e-5))], [report(one, skipped)])
    assert (found.ok, found.missing) == (True, ("kit.smooth, float32, N 8, forward",))
    assert report(one, skipped).ok


def test_an_operator_that_is_wrong_now_is_a_regression():
    wrong = timing("N 4", "opsmith", 9e-6, error="wrong result after timing: y[0] is 1")
    found = compare_reports([report(timing("N 4", "opsmith", 1e-5))], [report(wrong)])
    assert (found.ok, found.changes) == (False, ())


def test_an_operator_that_now_fails_is_a_regression():
    failed = timing("N 4", "opsmith", 0, time=None, wall=None, error="failed: RuntimeError: no")
    found = compare_reports([report(timing("N 4", "opsmith", 1e-5))], [report(failed)])
    assert not found.ok
    assert "✗ kit.smooth, float32, N 4, forward: had a time and now fails" in list(comparison_lines(found, "old"))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(CPU, name="Other CPU"), "the machine was Planted CPU and is Other CPU"),
        (replace(CPU, torch="2.12.0"), "the torch was 2.13.0+cpu and is 2.12.0"),
        (replace(CPU, threads=2), "the number of threads was 4 and is 2"),
        (GPU, "the device was cpu and is cuda"),
    ],
)
def test_another_machine_is_refused(machine: object, message: str):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        compare_reports([small()], [replace(small(), machine=machine)])


def test_threads_of_the_host_do_not_matter_to_a_gpu():
    assert compare_reports([small(machine=GPU)], [small(machine=replace(GPU, threads=1))]).ok


def test_reports_without_anything_in_common_are_refused():
    with pytest.raises(ArgumentError, match=r"nothing in common: the earlier has kit\.smooth, the new one kit\.other"):
        compare_reports([small()], [replace(small(), operator="kit.other")])
    with pytest.raises(ArgumentError, match="nothing in common"):
        compare_reports([report(timing("N 4", "opsmith", 1e-5))], [report(timing("N 8", "opsmith", 1e-5))])


def test_the_lines_of_a_comparison():
    lines = list(comparison_lines(compare_reports([small(own=1e-5)], [small(own=1.2e-5)]), "old.json"))
    assert lines == [
        "since old.json",
        "  kit.smooth                     then      now       takes",
        "  float32, forward, B 64, N 64   10.0 us   12.0 us   1.20x as long [1.18, 1.22]: slower",
        "1 of 1 timing slower, 0 faster, beyond the noise",
        "! one process per report: another process may differ as much; --runs 5 tells",
        "times relative to eager's in the same run, so a slower machine does not count",
    ]


def test_json_is_read_again(tmp_path: Path):
    file = tmp_path / "report.json"
    comparison = compare_reports([small()], [small(own=1.2e-5)])
    file.write_text(reports_as_json([large(), small(own=1.2e-5)], comparison))
    assert read_reports(file) == (large(), small(own=1.2e-5))
    content = json.loads(file.read_text())
    assert (content["format"], content["ok"]) == (1, False)
    assert content["comparison"]["changes"][0]["kind"] == "slower"
    # What one report writes by itself is read too.
    file.write_text(small().to_json())
    assert read_reports(file) == (small(),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON .* It is truncated"),
        (small().to_json()[:400], "it is not JSON .* It is truncated"),
        ('{"format": 1, x}', "it is not JSON .*double quotes.*$"),
        ("[1, 2]", "is not a report of opsmith bench"),
        ("3", "is not a report of opsmith bench"),
        ("null", "is not a report of opsmith bench"),
        ('"text"', "is not a report of opsmith bench"),
        ('{"operators": 3}', "it names no operator"),
        ('{"operators": []}', "it names no operator"),
        ('{"ok": true, "machine": {}}', "is not a report of opsmith bench"),
        (json.dumps({**json.loads(small().to_json()), "format": 99}), "the format is 99, not 1"),
        (json.dumps({**json.loads(small().to_json()), "timings": [{}]}), "is not a report of opsmith bench"),
        (json.dumps({**json.loads(small().to_json()), "timings": 3}), "is not a report of opsmith bench"),
        (
            replace(small(), timings=(replace(small().timings[0], time=around(0.0)),)).to_json(),
            "the time of opsmith, float32, B 64, N 64, forward is",
        ),
    ],
)
def test_files_that_are_no_report(tmp_path: Path, text: str, message: str):
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        read_reports(file)


def test_a_report_of_check_is_no_report_of_bench(tmp_path: Path):
    file = tmp_path / "check.json"
    file.write_text(json.dumps({"format": 1, "ok": True, "machine": {}, "operators": [{"name": "a.b", "results": []}]}))
    with pytest.raises(ArgumentError, match="is not a report of opsmith bench"):
        read_reports(file)


@pytest.mark.parametrize("endless", ["/dev/zero", "/dev/full"])
def test_a_file_without_an_end_is_not_read(endless: str):
    with pytest.raises(ArgumentError, match=f"{endless} cannot be read: is not a regular file"):
        read_reports(Path(endless))


def test_brackets_without_an_end_are_no_report(tmp_path: Path):
    file = tmp_path / "report.json"
    file.write_text("[" * 100_000)
    with pytest.raises(ArgumentError, match="is not a report of opsmith bench: its brackets are nested too deeply"):
        read_reports(file)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(ArgumentError, match="cannot be read: No such file"):
        read_reports(tmp_path / "none.json")
    with pytest.raises(ArgumentError, match="cannot be read: is not a regular file"):
        read_reports(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="it is not text"):
        read_reports(tmp_path / "binary")
