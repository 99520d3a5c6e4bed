"""Findings are verified: they keep their kind, name what decides, and say when they depend on earlier calls."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.checker import alone
from opsmith.checker.alone import Answer
from opsmith.checker.blame import Failure, cause_of, key_of
from opsmith.checker.outcome import Finding, failed
from opsmith.checker.particulars import particulars
from opsmith.checker.process.fresh import Again, Request, run_again
from opsmith.checker.properties.answers import is_accident
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gpu import TOO_EARLY
from opsmith.checker.properties.table import chosen
from opsmith.checker.properties.values import IN_ANY_LAYOUT
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.subject import subject_of

F32 = {"T": "float32"}


def plus_one(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + 1


def check(op: Callable[..., Any], *names: str, reference: Any = plus_one, rerun: bool = False) -> Report:
    plan = CheckPlan(chosen(names), ("float32",), rerun=rerun, processes=1)
    return run_check(subject_of(op, reference=reference, devices=("cpu",)), plan)


def wrong_or_dead(x: Tensor) -> Tensor:
    if 5 <= x.shape[0] <= 7:
        signal.raise_signal(signal.SIGSEGV)
    return x + 1 + (x.shape[0] > 32)


def test_a_wrong_value_does_not_become_a_crash_when_it_is_made_smaller() -> None:
    (finding,) = check(wrong_or_dead, "sizes").findings
    assert "the reference has" in finding.message
    assert finding.message.startswith("N = ")


def wrong_or_nan(x: Tensor) -> Tensor:
    return x + (torch.nan if x.shape[0] <= 16 else 2) if x.shape[0] in range(5, 8) or x.shape[0] > 32 else x + 1


def test_a_wrong_value_does_not_become_a_nan() -> None:
    (finding,) = check(wrong_or_nan, "sizes").findings
    assert finding.message.startswith("N = 33: ")
    assert "nan" not in finding.message


def two_deaths(x: Tensor) -> Tensor:
    if x.shape[0] > 32:
        signal.raise_signal(signal.SIGFPE)
    if 5 <= x.shape[0] <= 7:
        signal.raise_signal(signal.SIGSEGV)
    return x + 1


def test_a_crash_stays_the_same_signal() -> None:
    (finding,) = check(two_deaths, "sizes").findings
    assert finding.message.startswith("N = 33: it crashes: a division by zero")


_kept: dict[tuple[int, ...], Tensor] = {}


def summed(x: Tensor) -> Tensor:
    _kept.setdefault(tuple(x.shape), x.sum())
    return x + _kept[tuple(x.shape)]


def sums(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + x.sum()


def test_what_fails_only_after_earlier_calls_says_so_and_makes_them() -> None:
    report = check(summed, "value", "determinism", reference=sums, rerun=True)
    assert report.failed == ("determinism",)
    (finding,) = report.findings
    assert finding.message.endswith("It depends on earlier calls, which the program makes.")
    assert len(finding.earlier) == 1
    assert finding.snippet.count("# an earlier call") == 1
    assert "operator:" in finding.snippet


@pytest.mark.parametrize(("on_one_thread", "how"), [(True, "after"), (False, "threaded")])
def test_what_fails_after_earlier_calls_on_several_threads_alone_is_no_state(
    monkeypatch: pytest.MonkeyPatch, on_one_thread: bool, how: str
) -> None:
    def answer(context: Any, name: str, case: Case, earlier: Any = (), threads: int | None = None) -> Answer:
        return Answer("wrong" if earlier and (threads is None or on_one_thread) else "")

    monkeypatch.setattr(alone, "judge_in_child", answer)
    context = Context(subject_of(plus_one, reference=plus_one, devices=("cpu",)), "cpu", F32)
    before = Case({"x": recipe(seed=7)})
    found, found_how = alone.explain(context, "sizes", Finding("wrong", Case({"x": recipe()})), [before])
    assert (found_how, found.earlier) == (how, (before,))


def test_without_a_property_for_that_it_is_called_what_it_was() -> None:
    report = check(summed, "value", reference=sums)
    assert report.failed == ("value",)
    assert "It depends on earlier calls" in report.findings[0].message


off_by_one = 0


def moved(x: Tensor) -> Tensor:
    return x + 1 + off_by_one


def test_a_program_that_does_not_show_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.off_by_one", 1)  # which a new process does not know
    (finding,) = check(moved, "value", rerun=True).findings
    assert "In a new process the program does not show it" in finding.message


def plus_two(x: Tensor) -> Tensor:
    return x + 2


def test_a_program_that_shows_it_needs_no_words() -> None:
    (finding,) = check(plus_two, "value", rerun=True).findings
    assert "process" not in finding.message
    assert "not run" not in finding.message
    assert f"from {__name__} import plus_two" in finding.snippet


def test_a_program_that_cannot_be_run_is_not_claimed() -> None:
    (finding,) = check(lambda x: x + 2, "value", rerun=True).findings
    assert finding.message.endswith("The program was not run again: the operator is not an attribute of a module.")


def test_a_module_that_is_not_on_the_path_is_found_by_its_file(tmp_path: Any) -> None:
    file = tmp_path / "somewhere.py"
    file.write_text("def op(x):\n    return x + 2\n\n\ndef reference(x):\n    return x + 1\n")
    case = Case({"x": TensorRecipe((2,), "float32")})
    request = Request(
        "import torch\nfrom somewhere import op\nfrom somewhere import reference\n",
        "op", "reference", "value", case, (), "cpu", F32, 0, False, {"somewhere": str(file)}, 20.0,
    )  # fmt: skip
    assert run_again(request, float("inf")) == Again(failed=True)
    (tmp_path / "somewhere.py").write_text("raise OSError('it is gone')\n")
    assert run_again(request, float("inf")) == Again(why_not="OSError: it is gone")


def failures(*names: str, message: str = "wrong", case: Case | None = None) -> dict[Any, Failure]:
    return {key_of(name, "cpu", F32): Failure(failed(Finding(message, case)), False) for name in names}


@pytest.mark.parametrize(
    ("names", "name", "cause"),
    [
        (("value", "compile"), "compile", "value"),
        (("fake", "export"), "export", "fake"),
        (("reads outside", "opcheck"), "opcheck", "reads outside"),
        (("gradient", "second gradient", "func.grad"), "func.grad", "gradient"),
        (("inputs unchanged", "determinism"), "determinism", "inputs unchanged"),
        (("vmap", "func.grad"), "func.grad", "vmap"),
        (("value", "sizes"), "value", None),
        (("strides", "special values"), "special values", None),
        (("threads", "determinism"), "determinism", "threads"),
        (("threads", "determinism"), "threads", None),
        (("reads outside", "state"), "state", "reads outside"),
        (("reads outside", "state"), "reads outside", None),
        (("state", "streams"), "streams", "state"),
    ],
)
def test_a_shadow_is_charged_to_what_throws_it(names: tuple[str, ...], name: str, cause: str | None) -> None:
    found = failures(*names)
    assert cause_of(name, "cpu", F32, found[key_of(name, "cpu", F32)], found) == cause


def test_a_property_in_another_element_type_throws_no_shadow() -> None:
    found = {key_of("value", "cpu", {"T": "float16"}): Failure(failed(Finding("wrong")), False), **failures("sizes")}
    assert cause_of("sizes", "cpu", F32, found[key_of("sizes", "cpu", F32)], found) is None


def test_numbers_that_are_wrong_contiguously_explain_a_layout_in_another_element_type() -> None:
    of_numbers = {key_of("magnitude", "cpu", {"T": "float16"}): Failure(failed(Finding("wrong")), False)}
    for message, cause in ((f"x transposed. {IN_ANY_LAYOUT}", "magnitude"), ("x transposed.", None)):
        found = of_numbers | failures("strides", message=message)
        assert cause_of("strides", "cpu", F32, found[key_of("strides", "cpu", F32)], found) == cause


def test_calls_at_once_and_hangs_do_not_explain_the_results_of_one_thread() -> None:
    for message in ("called from 4 Python threads at once, it gives other results", "it hangs: no answer"):
        found = failures("threads", message=message) | failures("value")
        assert cause_of("value", "cpu", F32, found[key_of("value", "cpu", F32)], found) is None


def test_gradients_that_vary_are_wrong_gradients() -> None:
    found = failures("gradient") | failures("determinism", message="the gradient of x[0] differs, on one thread too")
    assert cause_of("determinism", "cpu", F32, found[key_of("determinism", "cpu", F32)], found) == "gradient"
    assert cause_of("gradient", "cpu", F32, found[key_of("gradient", "cpu", F32)], found) is None


def test_what_varies_on_one_thread_is_not_a_race() -> None:
    found = failures("threads") | failures("determinism", message="it differs, on one thread too")
    assert cause_of("threads", "cpu", F32, found[key_of("threads", "cpu", F32)], found) == "determinism"
    assert cause_of("determinism", "cpu", F32, found[key_of("determinism", "cpu", F32)], found) is None


def test_who_dies_of_strides_alone_dies_of_strides() -> None:
    case = Case({}, label="B x N = 257 x 259, every tensor transposed", group="layouts")
    died = Failure(failed(Finding("it crashes", case)), True)
    key, strides = key_of("outputs written", "cpu", F32), key_of("strides", "cpu", F32)
    for layouts in (failures("strides")[strides], died):
        found = {strides: layouts, key: died, key_of("writes outside", "cpu", F32): died}
        assert cause_of("strides", "cpu", F32, layouts, found) is None
        assert cause_of("outputs written", "cpu", F32, died, found) == "strides"
        assert cause_of("writes outside", "cpu", F32, died, found) == "strides"


def test_strides_that_a_changed_input_dies_of_are_not_charged_to_it() -> None:
    case = Case({}, label="B x N = 257 x 259, every tensor transposed", group="layouts")
    died = Failure(failed(Finding("it crashes", case)), True)
    names = ("inputs unchanged", "aliasing", "writes outside")
    found = {key_of(name, "cpu", F32): died for name in names} | failures("strides")
    assert cause_of("strides", "cpu", F32, found[key_of("strides", "cpu", F32)], found) is None
    for name in names:
        assert cause_of(name, "cpu", F32, died, found) == "strides"


def test_what_reads_its_inputs_too_early_finds_what_their_memory_held_before() -> None:
    found = failures("streams", message=f"it does not wait: {TOO_EARLY}") | failures("outputs written", "determinism")
    causes = {name: cause_of(name, "cpu", F32, found[key_of(name, "cpu", F32)], found) for name, *_ in found}
    assert causes == {"streams": None, "outputs written": "streams", "determinism": "streams"}


def test_a_gpu_that_stops_is_one_defect() -> None:
    stopped = Failure(failed(Finding("it crashes: the GPU stops\nCUDA error: an illegal memory access")), True)
    raised = failures("value", message="it raises AcceleratorError: CUDA error: an illegal memory access")
    found = raised | {key_of(name, "cpu", F32): stopped for name in ("sizes", "streams")}
    causes = {name: cause_of(name, "cpu", F32, failure, found) for (name, *_), failure in found.items()}
    assert causes == {"value": None, "sizes": "value", "streams": "value"}


def test_a_sum_in_half_precision_overflows_in_one_type_and_is_inexact_in_the_other() -> None:
    overflow = {key_of("magnitude", "cpu", {"T": "float16"}): Failure(failed(Finding("wrong")), False)}
    for dtype, cause in (("bfloat16", "magnitude"), ("float32", None)):
        key = key_of("sizes", "cpu", {"T": dtype})
        inexact = Failure(failed(Finding("wrong")), False)
        assert cause_of("sizes", "cpu", {"T": dtype}, inexact, {**overflow, key: inexact}) == cause


def recipe(**fields: Any) -> TensorRecipe:
    return TensorRecipe(**{"shape": (3, 4), "dtype": "float32", **fields})


@pytest.mark.parametrize(
    ("arguments", "group", "words"),
    [
        ({"x": recipe(layout="transposed"), "y": recipe()}, "layouts", "x transposed"),
        ({"x": recipe(layout="offset"), "y": recipe(layout="offset")}, "layouts", "every tensor offset"),
        ({"x": recipe(), "y": recipe(values="special")}, "special", "NaN and infinities in y"),
        ({"x": recipe(), "y": recipe(), "flag": True}, "scalars", "flag = True"),
        ({"x": recipe(), "y": None}, "scalars", "without y"),
        ({"x": recipe(), "y": recipe()}, "sizes", "N = 9"),
        ({"x": recipe(), "y": recipe()}, "plain", ""),
    ],
)
def test_a_call_is_named_by_what_is_particular_about_it(arguments: dict[str, Any], group: str, words: str) -> None:
    base = Case({"x": recipe(), "y": recipe(), "flag": False})
    given = {"flag": False, **arguments}
    assert particulars(Case(given, group=group, base=base), {"B": 1, "N": 9}) == words


def accident(make: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as raised:
        make()
    return raised.value


def refuses() -> None:
    raise RuntimeError("sparse tensors are not supported")


@pytest.mark.parametrize(
    ("make", "about", "is_one"),
    [
        (lambda: torch.cumsum(torch.eye(2).to_sparse(), 1), "layout", True),
        (lambda: torch.linalg.qr(torch.eye(2).half()), "dtype", True),
        (lambda: torch.ones(3) + torch.ones(2), "size", False),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "size", False),
        (lambda: torch.ones(2)[torch.tensor([3])], "number", False),
        (refuses, "layout", False),
    ],
)
def test_what_pytorch_lacks_is_no_refusal(make: Callable[[], Any], about: str, is_one: bool) -> None:
    assert is_accident(accident(make), about) is is_one
