"""What the bridge times: calls that C++ makes through the dispatcher."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kit_profile import operators as kit

from opsmith.runtime.bridge import find_bridge

pytestmark = pytest.mark.compile


@pytest.fixture
def bridge() -> Any:
    found = find_bridge()
    if found is None:
        pytest.skip("OPSMITH_BRIDGE is off")
    kit.spin.load()
    return found


def test_calls_are_made_as_often_as_asked_and_timed(bridge: Any) -> None:
    calls = [((torch.zeros(8), 500), {}), ((torch.zeros(8),), {"microseconds": 1500})]
    called, freed = bridge.time_calls(kit.spin._fast, calls, 4)
    # It goes round: half of the calls take the one time, half the other.
    assert 0.99e-3 < called < 50e-3
    assert -1e-6 < freed < called


@pytest.mark.parametrize(
    ("calls", "repeats", "message"),
    [
        ([], 3, "there is no call"),
        ([((torch.zeros(8), 1), {})], 0, "there is no call"),
        ([(("no tensor", 1), {})], 1, "not plain tensors and numbers"),
    ],
)
def test_what_cannot_be_timed_is_refused(bridge: Any, calls: Any, repeats: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bridge.time_calls(kit.spin._fast, calls, repeats)


def test_an_error_of_the_operator_comes_back(bridge: Any) -> None:
    with pytest.raises(RuntimeError, match="expected 1"):
        bridge.time_calls(kit.spin._fast, [((torch.zeros(2, 2), 1), {})], 1)
