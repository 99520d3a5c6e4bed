"""The report in a terminal: tables that fit the window, what could not be timed, and what the figures mean."""

from __future__ import annotations

import io
import json

import pytest
from planted import CPU, GPU, large, report, small, timing, verdict
from rich.console import Console

from opsmith.benchmark.progress import Progress
from opsmith.report.bench.grid import tables_of
from opsmith.report.bench.live import bench_screen, line_watcher
from opsmith.report.bench.markdown import report_markdown
from opsmith.report.bench.summary import summary_of
from opsmith.report.bench.text import report_lines
from opsmith.report.terminal import colour, for_encoding
from opsmith.report.units import duration, percent, size, with_prefix

OWN = {"share": 0.61, "bound": "bandwidth", "bytes_moved": 1000, "peak_bytes": 2_100_000}
REPORT = report(
    timing("B 64, N 4096", "opsmith", 1.23e-5, **OWN),
    timing("B 64, N 4096", "eager", 6.4e-5, ratio=5.2, peak_bytes=8_400_000),
    timing("B 64, N 4096", "compiled", 1.23e-5, ratio=1.001),
    timing("B 4096, N 4096", "opsmith", 1.1e-3, **{**OWN, "share": 0.004, "bound": "launch", "notes": ("cached",)}),
    timing("B 4096, N 4096", "eager", 9e-4, ratio=0.82),
    timing("B 4096, N 4096", "compiled", 0, time=None, wall=None, error="failed: RuntimeError: no"),
    warnings=("other programs are running",),
)


def test_the_whole_report():
    text = "\n".join(report_lines(REPORT))
    assert (
        text
        == """\
kit.smooth        Planted CPU, 4 threads, torch 2.13.0+cpu
the machine's limit, measured: copy 4.00 TB/s

float32, forward
  B x N         opsmith   eager                compiled        of the limit             memory
  64 x 4096     12.3 us   5.20x [5.15, 5.25]   no difference   ▇▇▇▁▁  61 %  bandwidth   2.10 MB (eager 8.40 MB)
  4096 x 4096   1.10 ms   0.82x [0.81, 0.83]   –               ▁▁▁▁▁  <1 %  launch *    2.10 MB

– compiled (float32, B 4096, N 4096, forward): failed: RuntimeError: no
– slower than eager (float32, B 4096, N 4096, forward): `opsmith profile` shows where the time of a call goes, and the
  guide 'Make a kernel faster' what to try
* opsmith: cached (float32, B 4096, N 4096, forward)
! other programs are running
1.50x: 1.5 times as fast as that competitor; brackets: 95 % interval · repeated timings differed by 1.0 % · seed 0 · 12
  s"""
    )
    assert str(REPORT) == text


def test_a_narrow_window_has_a_line_for_each_competitor():
    lines = list(report_lines(REPORT, width=58))
    assert max(map(len, lines)) <= 58
    start = lines.index("float32, forward") + 1
    assert [line.split() for line in lines[start : start + 5]] == [
        ["B", "x", "N", "time", "times", "as", "fast"],
        ["64", "x", "4096"],
        ["opsmith", "12.3", "us"],
        ["eager", "64.0", "us", "5.20x", "[5.15,", "5.25]"],
        ["compiled", "12.3", "us", "no", "difference"],
    ]


@pytest.mark.parametrize("width", [50, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_window(width: int):
    assert max(len(line) for line in report_lines(large(), width=width)) <= width


def test_verbose_shows_the_clock_and_the_rounds():
    text = "\n".join(report_lines(large(), verbose=True))
    assert "by the clock" in text
    assert "rounds" in text
    # On the CPU the two clocks are one.
    assert "by the clock" not in "\n".join(report_lines(REPORT, verbose=True))


def test_on_a_gpu_the_clock_has_a_column():
    lines = list(report_lines(large(), width=300))
    assert lines[lines.index("float32, forward") + 1].split()[:7] == ["B", "x", "N", "opsmith", "by", "the", "clock"]


def test_a_stream_that_has_no_bars_gets_letters():
    for line in report_lines(REPORT):
        for_encoding(line, "ascii").encode("ascii")
    assert for_encoding("▇▁ – ✗", "ascii") == "#. - x"
    assert for_encoding("▇▁ – ✗", "utf-8") == "▇▁ – ✗"


def test_without_a_time_of_the_operator_there_is_no_verdict():
    found = report(
        timing("N 4", "eager", 1e-5),
        timing("N 4", "compiled", 2e-5, ratio=2.0),  # a ratio to eager, which came first
        timing("N 4", "opsmith", 0, time=None, wall=None, error="wrong result, not timed: y[0] is 1"),
    )
    text = "\n".join(report_lines(found))
    assert "2.00x" not in text
    assert "✗ opsmith (float32, N 4, forward): wrong result" in text
    assert not found.ok
    (table,) = tables_of(found.timings)
    assert (table.own, table.others) == ("opsmith", ("eager", "compiled"))
    assert summary_of(table).kind == "wrong"


def test_an_operator_that_fails_is_not_well():
    failed = timing("N 4", "opsmith", 0, time=None, wall=None, error="failed: RuntimeError: no")
    assert not report(failed, timing("N 4", "eager", 1e-5)).ok
    assert summary_of(tables_of((failed,))[0]).lines == ("not timed",)


def test_errors_that_differ_in_numbers_alone_are_said_once():
    found = report(
        timing("N 4", "opsmith", 1e-5),
        *(
            timing(f"N {n}", "eager", 0, time=None, wall=None, error=f"wrong result, not timed: y[{n}] is {n}")
            for n in (4, 5, 6)
        ),
    )
    lines = [line for line in report_lines(found) if line.startswith("✗")]
    assert lines == ["✗ eager (float32, N 4, forward and 2 more): wrong result, not timed: y[4] is 4"]


def test_what_nobody_had_time_for_is_one_line():
    error = "not timed: there was no time left for it"
    found = report(
        timing("N 4", "opsmith", 1e-5),
        timing("N 4", "eager", 1e-5, ratio=1.0),
        *(timing("N 8", name, 0, time=None, wall=None, error=error) for name in ("opsmith", "eager")),
        timing("N 8", "compiled", 0, time=None, wall=None, error="failed: RuntimeError: no"),
    )
    assert [line for line in report_lines(found) if line.startswith("–")] == [
        f"– opsmith, eager (float32, N 8, forward): {error}",
        "– compiled (float32, N 8, forward): failed: RuntimeError: no",
    ]


def test_notes_say_whose_they_are():
    everywhere, once = ("the inputs stay in the cache",), ("its calls took 12% longer",)
    found = report(
        timing("N 4", "opsmith", 1e-5, notes=everywhere),
        timing("N 4", "eager", 1e-5, ratio=1.0, notes=(*everywhere, *once)),
        timing("N 8", "opsmith", 1e-5),
        timing("N 8", "eager", 1e-5, ratio=1.0, notes=("its calls took 31% longer",)),
    )
    lines = [line for line in report_lines(found) if line.startswith("*")]
    assert lines == [
        "* the inputs stay in the cache (float32, N 4, forward)",
        "* eager: its calls took 12% longer (float32, N 4, forward and 1 more)",
    ]


def test_columns_have_the_same_order_whatever_failed_first():
    found = (
        timing("N 4", "graph", 1e-5),
        timing("N 4", "opsmith", 1e-5),
        timing("N 4", "mine", 1e-5),
        timing("N 4", "eager", 1e-5),
    )
    assert tables_of(found)[0].others == ("eager", "graph", "mine")


def test_sizes_that_have_no_common_names_keep_their_labels():
    (table,) = tables_of((timing("B 1, N 2", "opsmith", 1e-5), timing("faces", "opsmith", 1e-5)))
    assert table.head == ""
    assert [row.label for row in table.rows] == ["B 1, N 2", "faces"]


def test_summaries():
    def figure(*ratios: float) -> str:
        timings = []
        for index, ratio in enumerate(ratios):
            timings += [timing(f"N {index}", "opsmith", 1e-5), timing(f"N {index}", "eager", 1e-5 * ratio, ratio=ratio)]
        return summary_of(tables_of(timings)[0]).figure

    assert figure(1.001, 0.999) == "no difference"
    assert figure(1.001, 2.5) == "up to 2.5x"
    assert figure(1.5, 12.0) == "1.50x to 12x"
    assert figure(0.8, 1.2) == "0.80x to 1.20x"
    assert figure(3.0) == "3.0x"


def test_the_fastest_competitor_has_a_line_of_its_own():
    timings = (
        timing("N 4", "opsmith", 1e-5),
        timing("N 4", "eager", 5e-5, ratio=5.0),
        timing("N 4", "compiled", 5e-6, ratio=0.5),
    )
    summary = summary_of(tables_of(timings)[0])
    assert summary.figure == "5.0x"
    assert "0.50x as fast as the fastest of the others" in summary.lines


def test_markdown():
    assert (
        report_markdown(REPORT)
        == """\
**`kit.smooth`** (Planted CPU, 4 threads, torch 2.13.0+cpu, 2026-01-02; medians of alternating rounds, ratios with their 95 \
% interval)

float32, forward:

| B x N | opsmith | against eager | against compiled | of the limit | memory |
| --- | --- | --- | --- | --- | --- |
| 64 x 4096 | 12.3 us | 5.20x [5.15, 5.25] | no difference | 61 %, bandwidth | 2.10 MB against 8.40 MB |
| 4096 x 4096 | 1.10 ms | 0.82x [0.81, 0.83] | – | <1 %, launch | 2.10 MB |
"""
    )


def test_times_and_sizes_are_written_with_three_digits():
    written = [duration(s) for s in (2.5e-9, 9.996e-7, 1.234e-6, 1.234e-5, 1.234e-4, 0.0123, 1.5, 150)]
    assert written == ["2.50 ns", "1.00 us", "1.23 us", "12.3 us", "123 us", "12.3 ms", "1.50 s", "150 s"]
    assert [size(n) for n in (12, 999_999, 2_100_000)] == ["12 B", "1.00 MB", "2.10 MB"]
    assert [with_prefix(n, "B/s") for n in (3.41e10, 5e14)] == ["34.1 GB/s", "500 TB/s"]
    assert [percent(part) for part in (0.0, 0.001, 0.5, 1.2)] == ["0 %", "<1 %", "50 %", "120 %"]


def screen_of(found: Progress, *, terminal: bool = True, **environment: str) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=terminal, width=100, height=30, _environ={"TERM": "xterm", **environment}
    )
    with bench_screen(console) as watch:
        watch(found)
    return stream.getvalue()


def test_the_live_screen_shows_what_is_there_and_what_comes():
    doing = Progress("kit.smooth", "float32, B 64: timing opsmith, eager", 3, 9, REPORT.timings)
    screen = screen_of(doing)
    assert "3 of 9  float32, B 64: timing opsmith, eager" in screen
    assert "5.20x [5.15, 5.25]" in screen
    assert "\x1b[32m" in screen
    assert "\x1b[32m" not in screen_of(doing, NO_COLOR="1")


def test_the_live_screen_fits_a_low_window():
    console = Console(file=io.StringIO(), force_terminal=True, width=60, height=8, _environ={"TERM": "xterm"})
    with bench_screen(console) as watch:
        watch(Progress("kit.smooth", "next", 1, 2, large().timings))
    frame = console.file.getvalue()  # type: ignore[attr-defined]
    first = frame.split("\x1b[1A")[0]
    assert first.count("\n") < 8
    assert "next" in frame


def test_a_log_has_a_line_for_each_thing():
    stream = io.StringIO()
    line_watcher(stream)(Progress("kit.smooth", "float32: making compiled", 3, 9))
    assert stream.getvalue() == "opsmith  kit.smooth  [4/9] float32: making compiled\n"


def test_colours_are_for_verdicts():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm"})
    lines = list(report_lines(REPORT, style=colour(console)))
    assert any("\x1b[32m5.20x" in line for line in lines)
    assert any("\x1b[31m0.82x" in line for line in lines)
    plain = Console(file=io.StringIO(), width=100)
    assert list(report_lines(REPORT, style=colour(plain))) == list(report_lines(REPORT))


def test_the_gpu_is_named_without_threads():
    assert "4 threads" in next(iter(report_lines(small(machine=CPU))))
    assert "threads" not in next(iter(report_lines(small(machine=GPU))))


def test_verdicts_of_planted_reports_are_judged_as_others_are():
    assert verdict(1.001).kind == "equal"
    assert verdict(1.05).kind == "faster"
    assert json.loads(small().to_json())["operator"] == "kit.smooth"
