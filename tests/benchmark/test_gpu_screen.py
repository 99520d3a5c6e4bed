"""What a benchmark on a GPU shows: both clocks, CUDA graphs, the GPU's state, and a comparison by both clocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opsmith.benchmark.as_json import read_reports
from opsmith.cli.bench import command

pytestmark = [pytest.mark.gpu, pytest.mark.compile, pytest.mark.slow("a whole benchmark")]


def bench(*arguments: object) -> str:
    """Run the command and return what it prints to standard output."""
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.whole_gpu
def test_a_whole_run(tmp_path: Path):
    file, page = tmp_path / "report.json", tmp_path / "page.html"
    options = ["--device", "cuda", "--dtype", "float32", "--phase", "forward", "--against", "graph", "--seconds", "20"]
    text = bench("opsmith.ops.add2", *options, "--json", file, "--html", page)
    assert "by the clock" in text
    (report,) = read_reports(file)
    assert report.machine.device == "cuda"
    assert {t.competitor for t in report.timings if t.time is not None} == {"opsmith", "eager", "graph"}
    assert any(t.peak_bytes for t in report.timings)
    assert "Bandwidth" in page.read_text(encoding="utf-8")
    # The largest size is far beyond any cache: an addition is bound by the memory there.
    largest = max((t for t in report.timings if t.is_own), key=lambda t: t.bytes_moved)
    assert largest.bound == "bandwidth"
    changes = json.loads(bench(file, "--compare", file, "--json"))["comparison"]["changes"]
    assert {change["clock"] for change in changes} == {"device", "wall"}
    assert {change["kind"] for change in changes} == {"equal"}
