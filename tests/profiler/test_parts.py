"""The parts of a call: differences within a round, which add up to the call; what is not there is not made up."""

from __future__ import annotations

import pytest

from opsmith.profiler.parts import Round, agreement_of, parts_of, whole_of

INSIDE = {"arguments": 2.0, "outputs": 20.0, "copies": 1.0, "kernel": 300.0, "results": 5.0}
READINGS = 6.0
# What the clocks inside see: the parts, and the readings themselves.
CLOCKS = {**INSIDE, "inside": sum(INSIDE.values()) + READINGS, "readings": READINGS}


def planted(*, kernel: float = 300.0, free: bool = True, loop: float = 7.0) -> Round:
    """A call of which Python takes 40, autograd 8, the dispatcher 16, the binding 28, and freeing the result 4."""
    inside = {**CLOCKS, "kernel": kernel, "inside": CLOCKS["inside"] - 300 + kernel}
    freed = 4.0 if free else 0.0
    below = inside["inside"] + 16
    dispatch = below + 8
    python = dispatch + freed + 40
    dropped = {"free": freed} if free else {}
    # Without the bridge the lower levels are called by the same loop in Python.
    more = 0.0 if free else loop
    return {
        "whole": {"call": python - READINGS + loop},
        "empty": {"loop": loop},
        "python": {"call": python + loop, **inside},
        "dispatch": {"call": dispatch + more, **dropped, **inside},
        "below": {"call": below + more, **dropped, **inside},
    }


def times(rounds: list[Round], device: str = "cpu", phase: str = "forward") -> dict[str, float]:
    return {part.name: part.time.middle for part in parts_of(rounds, device, phase)}


@pytest.mark.parametrize("free", [True, False], ids=["with the bridge", "without"])
def test_each_part_is_what_was_planted(free: bool) -> None:
    found = times([planted(free=free)] * 5)
    expected = {"Python": 40, "autograd": 8, "dispatcher": 16, **INSIDE, **({"free": 4} if free else {})}
    assert found == pytest.approx(expected)


def test_the_parts_add_up_to_the_call_and_their_shares_to_one() -> None:
    rounds = [planted()] * 5
    assert sum(times(rounds).values()) == pytest.approx(whole_of(rounds).middle)
    assert sum(part.share for part in parts_of(rounds, "cpu", "forward")) == pytest.approx(1)


def test_the_noise_of_a_long_kernel_is_not_in_what_is_around_it() -> None:
    rounds = [planted(kernel=kernel) for kernel in (1e6, 3e6, 1e6, 2e6, 5e6)]
    found = times(rounds)
    assert found["Python"] == pytest.approx(40)
    assert found["dispatcher"] == pytest.approx(16)


def test_the_twin_agrees_with_the_operator_but_for_its_clocks() -> None:
    agreement = agreement_of([planted()] * 5)
    assert agreement is not None
    assert agreement.middle == pytest.approx(1)


def test_a_twin_that_is_slower_than_the_operator_does_not_agree() -> None:
    slow = planted()
    rounds = [{**slow, "whole": {"call": slow["whole"]["call"] * 0.8}}] * 5
    agreement = agreement_of(rounds)
    assert agreement is not None
    assert agreement.low > 1.2


def test_without_a_kernel_of_its_own_the_dispatcher_and_the_body_are_one_part() -> None:
    bare = {
        name: {key: level[key] for key in level if key in ("call", "loop", "free")} for name, level in planted().items()
    }
    parts = {part.name: part for part in parts_of([bare] * 3, "cpu", "forward")}
    assert list(parts) == ["Python", "autograd", "dispatcher", "free"]
    assert parts["dispatcher"].what == "dispatcher and body, which cannot be told apart here"
    assert parts["dispatcher"].time.middle == pytest.approx(16 + CLOCKS["inside"])


def test_where_the_whole_was_timed_alone_there_are_no_parts() -> None:
    rounds = [{"whole": {"call": 12.0}, "empty": {"loop": 2.0}}] * 3
    assert parts_of(rounds, "cpu", "forward") == ()
    assert agreement_of(rounds) is None
    assert whole_of(rounds).middle == 10


def test_on_a_gpu_and_in_a_backward_the_parts_are_called_what_they_are() -> None:
    on_gpu = {part.name: part.what for part in parts_of([planted()] * 3, "cuda", "backward")}
    assert on_gpu["kernel"] == "launching the kernel"
    assert "engine" in on_gpu["Python"]


def test_a_native_kernel_has_no_part_for_outputs_that_it_allocates() -> None:
    def native(level: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in level.items() if name not in ("outputs", "copies")}

    parts = {
        part.name: part.what
        for part in parts_of([{k: native(dict(v)) for k, v in planted().items()}] * 3, "cpu", "forward")
    }
    assert "outputs" not in parts
    assert parts["kernel"] == "the kernel, which allocates the outputs"
