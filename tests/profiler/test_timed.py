"""The timed twin: the same operator, whose binding tells what each of its parts takes."""

from __future__ import annotations

import pytest
import torch
from kit_profile import operators as kit

from opsmith.profiler.timed import PARTS, build_twin

pytestmark = pytest.mark.compile


def test_a_kernel_that_waits_is_where_the_time_goes() -> None:
    twin = build_twin(kit.spin.definition, "cpu")
    assert twin is not None
    found = twin.read(lambda: [twin.operator(torch.zeros(8), 2000) for _ in range(3)])
    assert set(found) == {*PARTS, "inside", "readings"}
    # It waits by another clock than the one that it is read with.
    assert 1.99e-3 < found["kernel"] <= found["inside"]
    assert sum(found[name] for name in PARTS) + found["readings"] == pytest.approx(found["inside"])


def test_layouts_that_the_kernel_does_not_take_are_a_part_of_their_own() -> None:
    twin = build_twin(kit.rows.definition, "cpu")
    assert twin is not None
    x = torch.randn(1000, 1000)
    straight = twin.read(lambda: twin.operator(x))
    turned = twin.read(lambda: twin.operator(x.t()))
    # A million elements are copied in the one case, and nothing is in the other.
    assert turned["copies"] > 10 * max(straight["copies"], 1e-6)


def test_the_twin_computes_what_the_operator_does_and_has_its_gradient() -> None:
    twin = build_twin(kit.spin.definition, "cpu")
    assert twin is not None
    assert twin.gradient is not None
    x = torch.randn(8, requires_grad=True)
    result = twin.operator(x, 0)
    assert torch.equal(result, kit.spin(x, 0))
    taken = twin.read(lambda: torch.autograd.grad(result.sum(), x))
    assert taken["kernel"] > 0
    assert twin.operator.definition.namespace != kit.spin.definition.namespace


def test_a_twin_is_built_once() -> None:
    assert build_twin(kit.spin.definition, "cpu") is build_twin(kit.spin.definition, "cpu")


def test_an_operator_without_a_kernel_for_the_device_has_no_twin() -> None:
    assert build_twin(kit.body_alone.definition, "cpu") is None
    assert build_twin(kit.spin.definition, "cuda") is None


def test_where_nothing_was_called_there_is_nothing_to_read() -> None:
    twin = build_twin(kit.spin.definition, "cpu")
    assert twin is not None
    with pytest.raises(RuntimeError, match="spin was not called"):
        twin.read(lambda: None)
