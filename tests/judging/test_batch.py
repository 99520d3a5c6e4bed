"""A batch judges each candidate once, and goes on from its log."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from judging_kit.candidates import EXAMPLES, RIGHT, normalize

from opsmith.errors import ArgumentError
from opsmith.judging import batch
from opsmith.judging.batch import LOG_NAME, BatchReport, judge_batch
from opsmith.judging.candidate import Candidate
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.options import JudgeOptions
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement
from opsmith.judging.task import Task

OPTIONS = JudgeOptions(examples=EXAMPLES, threads=1, time=False, operator=False, seed=3)
_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(8, 16)]
def get_init_inputs():
    return []
"""


def test_a_batch_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(RIGHT)
    (tmp_path / "two.py").write_text(RIGHT.replace("x * w", "x"))
    first = judge_batch(normalize, tmp_path, OPTIONS)
    assert [one.ok for one in first.judgements] == [True, False]
    assert first.judgements[1].refusals == (Refusal.WRONG_VALUES,)
    log = tmp_path / LOG_NAME
    *lines, last = log.read_text().splitlines()
    assert len(lines) == 2
    run = json.loads(last)["run"]
    assert (run["judged"], run["resumed"], run["device"]) == (2, 0, "cpu")
    assert run["per_hour"] == pytest.approx(2 * 3600 / run["seconds"])
    assert f"2 judged in {first.seconds:.0f} s, which is {first.per_hour:,.0f} an hour" in str(first)
    # A run that was killed while it wrote its last line.
    log.write_text(lines[0] + "\n" + lines[1][:40])
    done: list[str] = []
    again = judge_batch(normalize, tmp_path, OPTIONS, watch=lambda name, doing: done.append(name))
    assert set(done) == {"two"}
    assert again.resumed == 1
    assert again.judgements[0] == first.judgements[0]
    assert "1 of 2 accepted as posed" in str(again)
    # What has changed is judged again.
    (tmp_path / "two.py").write_text(RIGHT)
    assert judge_batch(normalize, tmp_path, OPTIONS).ok
    whole = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    assert all(set(line) in ({"key", "judgement"}, {"run"}) for line in whole)
    # Nothing is judged, so nothing is said of a pace.
    size = log.stat().st_size
    known = judge_batch(normalize, tmp_path, OPTIONS)
    assert (known.resumed, known.judged, known.per_hour) == (2, 0, None)
    assert log.stat().st_size == size


def test_candidates_of_several_tasks_are_found_by_name(tmp_path: Path) -> None:
    tasks, candidates = tmp_path / "tasks", tmp_path / "candidates"
    tasks.mkdir()
    (candidates / "relu").mkdir(parents=True)
    (tasks / "relu.py").write_text(_PROBLEM)
    (tasks / "other.py").write_text(_PROBLEM)
    text = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(min=0)\n"
    (candidates / "relu" / "one.py").write_text(text)
    (candidates / "relu" / "two.py").write_text(text.replace("min=0", "min=-1"))
    report = judge_batch(tasks, candidates, OPTIONS)
    assert [(one.task, one.candidate, one.ok) for one in report.judgements] == [
        ("relu", "one", True),
        ("relu", "two", False),
    ]


def test_a_task_that_cannot_be_read_is_refused_and_the_others_are_judged(tmp_path: Path) -> None:
    tasks, candidates = tmp_path / "tasks", tmp_path / "candidates"
    for folder in (tasks, candidates):
        folder.mkdir()
    (tasks / "broken.py").write_text(_PROBLEM.replace("torch.randn(8, 16)", "1 // 0"))
    (tasks / "relu.py").write_text(_PROBLEM)
    text = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clamp(min=0)\n"
    for name in ("broken", "relu"):
        (candidates / f"{name}.py").write_text(text)
    broken, relu = judge_batch(tasks, candidates, OPTIONS).judgements
    assert relu.ok
    (charge,) = broken.task_charges
    assert charge.refusal is Refusal.DEGENERATE_TASK
    assert "get_inputs raises ZeroDivisionError" in charge.message
    assert broken.as_posed.state == "not judged"


def test_the_next_process_starts_while_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[CandidateProcess] = []
    begin = batch.start_ahead

    def start_ahead(options: JudgeOptions) -> CandidateProcess:
        started.append(begin(options))
        assert not any((started[-1].folder / "candidate").iterdir())  # another candidate runs, and could read them
        return started[-1]

    monkeypatch.setattr(batch, "start_ahead", start_ahead)
    for name, text in (("one", RIGHT), ("three", RIGHT), ("two", RIGHT.replace("x * w", "x"))):
        (tmp_path / f"{name}.py").write_text(text)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    report = judge_batch(normalize, tmp_path, OPTIONS)
    assert len(started) == 2
    assert [one.ok for one in report.judgements] == [True, True, False]
    assert list(scratch.iterdir()) == []
    # What is known is not started.
    (tmp_path / "one.py").write_text(RIGHT + "\n")
    (tmp_path / "two.py").write_text(RIGHT)
    started.clear()
    assert judge_batch(normalize, tmp_path, OPTIONS).ok
    assert len(started) == 1


def test_an_error_of_the_judge_is_a_line_and_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(RIGHT)
    run = batch.run_judge

    def run_judge(task: Task, candidate: Candidate, *more: Any) -> Judgement:
        if candidate.name == "one":
            raise MemoryError("no room\x1b[2J")
        return run(task, candidate, *more)

    monkeypatch.setattr(batch, "run_judge", run_judge)
    report = judge_batch(normalize, tmp_path, OPTIONS)
    one, two = report.judgements
    assert (one.as_posed.state, one.ok, two.ok, report.ok) == ("not judged", False, True, False)
    assert one.failure.startswith(r"MemoryError: no room\x1b[2J (test_batch.py, line")
    assert one.failure in one.as_posed.note
    failure, _, _ = map(json.loads, (tmp_path / LOG_NAME).read_text().splitlines())
    assert failure["not judged"]["candidate"] == "one"
    assert failure["not judged"]["reason"] == one.failure
    # What failed is tried again.
    monkeypatch.undo()
    again = judge_batch(normalize, tmp_path, OPTIONS)
    assert (again.ok, again.resumed) == (True, 1)


def test_a_source_that_is_nested_too_deep_does_not_end_a_batch(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(RIGHT + f"\ndef unused(a):\n    return a{'.b' * 1_500}\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "main.py").write_text(RIGHT)
    (tmp_path / "two" / "more.py").write_text("-" * 200_000 + "1")
    assert judge_batch(normalize, tmp_path, OPTIONS).ok


def test_nothing_to_judge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no candidates"):
        judge_batch(normalize, tmp_path, OPTIONS)
    with pytest.raises(ArgumentError, match="not a folder"):
        judge_batch(normalize, tmp_path / "none", OPTIONS)


def test_a_judgement_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(RIGHT.replace("x * w", "x"))
    (judgement,) = judge_batch(normalize, tmp_path, OPTIONS).judgements
    assert Judgement.from_json(judgement.to_json()) == judgement
    with pytest.raises(ValueError, match="not a judgement"):
        Judgement.from_json("{}")
    with pytest.raises(ValueError, match="not a judgement"):
        Judgement.from_json(json.dumps({**json.loads(judgement.to_json()), "format": 99}))


@pytest.mark.parametrize("what", ["a function", "a problem", "sizes of a folder's task"])
def test_a_task_that_has_changed_is_judged_again(what: str, tmp_path: Path) -> None:
    before, after = ("relu", "abs") if "size" not in what else ("size: 8", "size: 16")
    candidates = tmp_path / "candidates"
    candidates.mkdir()
    names = {"a function": "f", "a problem": "ModelNew"}
    main = f"class ModelNew(torch.nn.Module):\n    def forward(self, x): return x.{before}()\n"
    main = f"def f(x): return x.{before}()\n" if what == "a function" else main
    main = "def custom_kernel(data): return data.relu()\n" if what not in names else main
    (candidates / "one.py").write_text(f"import torch\n{main}")
    options = replace(OPTIONS, examples=[(torch.randn(8, 16),)])

    def judged(word: str) -> BatchReport:
        task: Any = tmp_path / "task.py"
        if what == "a function":
            task = _function_of(tmp_path / f"{word}.py", word)
        elif what == "a problem":
            task.write_text(_PROBLEM.replace("torch.relu", f"torch.{word}"))
        else:
            task = tmp_path / "task"
            task.mkdir(exist_ok=True)
            (task / "reference.py").write_text(_FOLDER)
            (task / "task.yml").write_text(f"tests:\n  - {{{word}, seed: 1}}\n")
        return judge_batch(task, candidates, options)

    assert judged(before).judged == 1
    assert judged(before).judged == 0
    assert judged(after).judged == 1


_FOLDER = """
import torch
def generate_input(size, seed):
    return torch.randn(size, 16, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return data.relu()
"""


def _function_of(path: Path, name: str) -> Any:
    path.write_text(f"def f(x):\n    return x.{name}()\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def test_a_candidate_that_is_not_read_is_refused_and_the_next_one_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsmith.judging.candidate._MOST_BYTES", 1000)
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "main.py").write_text("#" * 2000)
    (tmp_path / "right.py").write_text(RIGHT)
    report = judge_batch(normalize, tmp_path, OPTIONS)
    assert [one.ok for one in report.judgements] == [False, True]
    assert report.judgements[0].refusals == (Refusal.NOT_LOADED,)
    assert "give the candidate's files alone" in str(report.judgements[0])
