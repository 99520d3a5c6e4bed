"""A dataclass reaches kernel and body as it was given, and PyTorch sees its fields alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from kit import structs
from kit.agreement import agree
from kit.structs import Scale, Window, plain, scaled, windowed
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from opsmith.errors import ArgumentTypeError, ShapeError, SignatureError
from opsmith.runtime.bridge import find_bridge
from opsmith.subject.subject import subject_of

pytestmark = pytest.mark.compile

WINDOWS = [
    Window(2),
    Window(0, 2.5, True, "é", 5, None, False),
    Window(3, is_shifted=True, limit=0.75, step=-(2**40)),
    Window(1, gain=2, name=""),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_every_field_reaches_kernel_and_body(window: Window) -> None:
    x = torch.randn(2, 5, dtype=torch.float64)
    # A C string counts bytes, and é has two of them.
    more = len(window.name.encode()) - len(window.name)
    y = windowed(x, window, True, scale=Scale(0.25))
    torch.testing.assert_close(y, windowed.reference(x, window, True, scale=Scale(0.25)) + more, rtol=0, atol=1e-4)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_native_kernel_gets_a_struct_too(window: Window) -> None:
    x = torch.randn(6, dtype=torch.float64)
    if window.name.isascii():
        agree(scaled, x, window, tolerance=1e-12)


def test_all_ways_to_call_it() -> None:
    x, window, scale = torch.randn(2, 3), Window(2, 3.0), Scale(0.5)
    fields = {name: getattr(window, name) for name in ("size", "gain", "is_negated", "name", "step", "limit")}
    for function in (windowed, windowed.reference):
        expected = function(x, window, scale=scale)
        calls: list[Callable[[], Tensor]] = [
            lambda function=function: function(x, window=window, scale=scale),
            lambda function=function: function(scale=scale, window=window, x=x),
            lambda function=function: function(x, *fields.values(), None, False, factor=0.5),
            lambda function=function: function(x, 2, 3.0, factor=0.5),
            lambda function=function: function(x, size=2, gain=3.0),
            lambda function=function: function(x, window, factor=0.5),
            lambda function=function: function(x, window, False),
        ]
        for call in calls:
            assert torch.equal(call(), expected)
    assert torch.equal(torch.ops.kit.windowed(x, 2, 3.0), windowed(x, window))


def test_what_is_not_given_has_its_defaults() -> None:
    x = torch.randn(3)
    for function in (plain, plain.reference):
        assert torch.equal(function(x), x * 3)
        assert torch.equal(function(x, Scale()), x * 0.5)
        assert torch.equal(function(x, factor=2.0), x * 2)


def test_the_signature_is_the_definition_s() -> None:
    assert list(inspect.signature(windowed).parameters) == ["x", "window", "flip", "scale"]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((Scale(),), {}, "windowed(): window is Scale Scale(factor=0.5), expected Window or its fields: size, gain,"),
        ((), {"window": 3}, "windowed(): window is int 3, expected Window or its fields: size, gain, is_negated, name"),
        ((), {"window": {"size": 3}}, "windowed(): window is dict {'size': 3}, expected Window or its fields"),
        ((Window("a"),), {}, "windowed(): window.size is str 'a', expected an int"),
        ((Window(2, limit="a"),), {}, "windowed(): window.limit is str 'a', expected a float or None"),
        ((2, "a"), {}, "windowed(): window.gain is str 'a', expected a float"),
        ((), {}, "windowed(): window.size is missing: an int"),
        ((Window(2),), {"gain": 2.0}, "windowed(): gain is given twice"),
        ((), {"window": Window(2), "gain": 2.0}, "windowed(): gain is given twice, in window and outside it"),
        ((3,), {"window": Window(2)}, "windowed(): size is given twice, in window and outside it"),
        ((Window(2), Window(2)), {}, "windowed(): flip is Window Window(size=2"),
        (
            (Window(2),),
            {"size_": 2},
            "windowed(): there is no argument size_; it takes x, window (size, gain, is_negated, name, step, limit, "
            "is_shifted), flip, scale (factor)",
        ),
        ((Window(2), False, 3), {}, "windowed(): got 10 positional arguments, takes at most 9: x, size, gain"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentTypeError) as error:
        windowed(torch.randn(2, 3), *args, **kwargs)
    assert words in str(error.value)


def test_a_size_that_a_field_gives_is_checked() -> None:
    with pytest.raises(ShapeError, match=re.escape("N+size with N = 3, size = -9")):
        windowed(torch.randn(2, 3), Window(-9))


def test_a_call_with_a_dataclass_enters_the_dispatcher_as_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_bridge() is None:
        pytest.skip("there is no bridge here")
    x = torch.randn(2, 3)
    windowed(x, Window(2))
    entered: list[tuple[Any, ...]] = []

    def overload(*args: Any, **kwargs: Any) -> Tensor:
        entered.append((args, kwargs))
        return x

    # What the fast entry does not take, __call__ would hand to this.
    monkeypatch.setattr(windowed, "_overload", overload)
    monkeypatch.setattr(type(windowed), "_explain", None)
    assert windowed(x, Window(2), scale=Scale()).shape == (2, 5)
    assert entered == []


class Recorder(TorchFunctionMode):
    """Notes what torch.ops is called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((function, args, kwargs))
        return function(*args, **(kwargs or {}))


def test_modes_see_plain_scalars() -> None:
    x = torch.randn(2, 3)
    with Recorder() as mode:
        windowed(x, Window(2, 3.0), scale=Scale(2.0))
    ((_, args, kwargs),) = [call for call in mode.calls if call[0] is windowed.torch_op]
    assert args[1:] == (2, 3.0, False, "box", None, None, None)
    assert kwargs == {"factor": 2.0}


def test_gradients_go_through_the_fields() -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    window = Window(2, gain=3.0, is_negated=True)
    assert torch.autograd.gradcheck(lambda x: windowed(x, window, True, scale=Scale(2.0)), x)
    assert torch.autograd.gradgradcheck(lambda x: windowed(x, window, scale=Scale(2.0)), x)
    y = torch.ones(3, requires_grad=True)
    plain(y, Scale(7.0)).sum().backward()
    assert y.grad.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: windowed(x, Window(2, gain=3.0), scale=Scale(2.0)),
        lambda x: windowed(x, window=Window(x.shape[1] + 1, limit=2.0), flip=True),
        lambda x: windowed.reference(x, Window(x.shape[1], gain=3.0)),
        lambda x: windowed.reference(x, 2, gain=3.0, factor=2.0),
    ],
)
def test_one_graph_serves_all_sizes(function: Callable[[Tensor], Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)
    for columns in (3, 5):
        x = torch.randn(2, columns, requires_grad=True)
        y = compiled(x)
        torch.testing.assert_close(y, function(x))
        torch.testing.assert_close(
            torch.autograd.grad(y.sum(), x), torch.autograd.grad(function(x).sum(), x), rtol=1e-5, atol=1e-5
        )


class Module(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return windowed(x, Window(2, gain=3.0), scale=Scale(2.0))


def test_an_exported_program_has_plain_scalars() -> None:
    x = torch.randn(2, 3)
    program = torch.export.export(Module(), (x,))
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    assert node.target is windowed.torch_op
    assert (node.args[1:], node.kwargs) == ((2, 3.0), {"factor": 2.0})
    assert torch.equal(program.module()(x), Module()(x))


def test_vmap_and_grad_of_torch_func() -> None:
    x, window = torch.randn(4, 2, 3), Window(2, gain=3.0)
    expected = torch.stack([windowed(sample, window) for sample in x])
    assert torch.equal(torch.vmap(lambda sample: windowed(sample, window))(x), expected)
    gradients = torch.vmap(torch.func.grad(lambda sample: windowed(sample, window).sum()))(x)
    torch.testing.assert_close(gradients, torch.full_like(x, 1.5))


def test_autocast_and_deepcopy_leave_the_fields_alone() -> None:
    x = torch.randn(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert windowed(x, Window(2)).dtype == torch.float32
    agree(windowed, x, Window(2, 3.0), tolerance=1e-4)


def test_rules_get_the_dataclass() -> None:
    with FlopCounterMode(display=False) as counter:
        windowed(torch.randn(2, 3), Window(7))
    assert counter.get_total_flops() == 21


def test_examples_may_have_dataclasses() -> None:
    cases = subject_of(windowed, devices=["cpu"]).examples
    assert [case.arguments["size"] for case in cases] == [2, 0]
    assert [case.arguments.get("limit") for case in cases] == [1.0, None]
    assert [case.arguments.get("factor") for case in cases] == [0.5, 2.0]  # 0.5 is the default


def test_another_reference_takes_dataclasses_or_fields() -> None:
    x = torch.randn(3)

    def as_declared(x: Tensor, scale: Scale) -> Tensor:
        return x * scale.factor

    def by_field(x: Tensor, factor: float) -> Tensor:
        return x * factor

    for reference in (as_declared, by_field):
        subject = subject_of(plain, reference=reference, devices=["cpu"])
        assert torch.equal(subject.reference(x, 2.0), x * 2)


DEFINITION = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Scale:
    factor: float
    count: int = 1

@opsmith.op(cpu="scale.cpp", dtypes=[torch.float32])
def scale(x: Float[Tensor, "N"], by: Scale) -> Float[Tensor, "N"]:
    return x * by.factor
"""
KERNEL = """#include <opsmith/kernel.h>
struct Scale {
  double factor;
  int64_t count;
};
template <class T>
void scale(opsmith::View<const T, 1> x, Scale by, opsmith::View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(by.factor * x(n));
}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("double factor", "float factor", "Scale::factor must be double"),
        ("int64_t count", "int64_t number", "'count' is not a member of 'Scale'"),
        ("int64_t count;", "int64_t count, more;", "2 names"),
        ("struct Scale {", "struct Other {", "'Scale'"),
        ("Scale by", "const Scale& by", "static_cast"),
    ],
)
def test_a_struct_that_does_not_fit_is_shown_with_the_one_it_should_be(
    package: Callable[..., ModuleType], old: str, new: str, words: str
) -> None:
    kernel = KERNEL.replace(old, new)
    if "Other" in new:
        kernel = kernel.replace("Scale by", "Other by")
    module = package(DEFINITION, scale__cpp=kernel)
    with pytest.raises(SignatureError) as error:
        module.scale(torch.ones(3), module.Scale(2.0))
    lines = str(error.value).splitlines()
    assert lines[0].startswith(f"{Path(module.__file__).with_name('scale.cpp')}:")
    needed = "template <class T> void scale(View<const T, 1> x, Scale by, View<T, 1> out)"
    assert lines[2] == f"    the definition needs   {needed}"
    assert lines[3] == "    and                    struct Scale { double factor; int64_t count; };"
    assert lines[5].startswith("    the compiler says      ")
    assert words in lines[5].replace("‘", "'").replace("’", "'").replace("::Scale", "Scale")


def test_a_definition_that_gathers_its_scalars_is_planned_again(package: Callable[..., ModuleType]) -> None:
    from opsmith.build.shortcut import _request

    module = package(DEFINITION)
    flat = package(DEFINITION.replace("by: Scale", "factor: float, count: int = 1").replace("by.factor", "factor"))
    requests = [_request("m", [each.scale.definition], ["cpu"]) for each in (module, flat)]
    assert len(requests[0]) == len(requests[1]) + 1
    assert structs.windowed.definition.signature.structs[0].type is Window
