"""Whatever watches PyTorch's operators sees these as it sees torch.add: profilers, modes, subclasses, fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from compose_kit.table import FORWARD, Case, as_tuple, each_case, each_operator
from torch import Tensor
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell, lltm_cell

pytestmark = pytest.mark.compile

Function = Callable[..., Any]
both_additions = pytest.mark.parametrize("function", [add2, torch.add], ids=["add2", "torch.add"])


@each_case
def test_the_profiler_shows_the_operator_with_its_shapes(case: Case):
    arguments = case.make(dtype=torch.float32)
    case.total(*arguments).backward()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        case.total(*arguments).backward()
    events = [event for event in profiled.events() if event.name == f"opsmith::{case.name}"]
    assert len(events) == 1
    tensors = events[0].input_shapes[: len(arguments)]  # behind them are numbers, with defaults
    assert tensors == [list(argument.shape) for argument in arguments]


# The gradient of a sum is the incoming gradient: no operator has to run for it.
each_with_backward_kernel = pytest.mark.parametrize("case", FORWARD[1:], ids=lambda case: case.name)


@each_with_backward_kernel
def test_the_profiler_shows_the_backward_below_autograd(case: Case):
    arguments = case.make(dtype=torch.float32)
    total = case.total(*arguments)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        total.backward()
    names = [event.name for event in profiled.events()]
    assert f"opsmith::{case.name}_backward" in names


class Names(TorchDispatchMode):
    """Notes the operators that reach the bottom of the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@each_case
def test_a_dispatch_mode_sees_one_operator(case: Case):
    with Names() as names:
        case.found(*case.make(requires_grad=False))
    assert names.seen.count(case.operator.torch_op) == 1


@each_with_backward_kernel
def test_a_dispatch_mode_sees_the_backward_operator(case: Case):
    with Names() as names:
        case.total(*case.make()).backward()
    assert names.seen.count(case.operator.torch_op) == 1
    assert names.seen.count(case.operator.gradient.torch_op) == 1


class Calls(TorchFunctionMode):
    """Notes what is called, and with which arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, int, dict[str, Any]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((func, len(args), kwargs or {}))
        return func(*args, **(kwargs or {}))


@both_additions
def test_a_function_mode_sees_the_call(function: Function):
    x = torch.ones(3)
    with Calls() as calls:
        result = function(x, x)
    assert len(calls.seen) == 1
    func, count, keywords = calls.seen[0]
    assert func in {torch.add, add2, add2.torch_op}
    assert (count, keywords) == (2, {})
    assert result.tolist() == [2, 2, 2]


@both_additions
def test_a_function_mode_may_answer_instead(function: Function):
    class Answer(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "answered"

    x = torch.ones(3)
    with Answer():
        assert function(x, x) == "answered"


class Tagged(Tensor):
    """A user's subclass that carries a word along, through __torch_function__."""

    tag = ""
    calls: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        result = super().__torch_function__(func, types, args, kwargs)
        tags = [leaf.tag for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tagged)]
        for tensor in as_tuple(result):
            if isinstance(tensor, Tagged):
                tensor.tag = "+".join(tags)
        return result


@both_additions
def test_a_function_subclass_is_asked_and_kept(function: Function):
    a, b = torch.randn(3).as_subclass(Tagged), torch.randn(3).as_subclass(Tagged)
    a.tag, b.tag = "a", "b"
    Tagged.calls.clear()
    result = function(a, b)
    assert type(result) is Tagged
    assert result.tag == "a+b"
    assert len(Tagged.calls) == 1
    mixed = function(torch.ones(3), a)
    assert type(mixed) is Tagged


@each_operator
def test_a_function_subclass_for_each_argument(case: Case):
    plain = case.make()
    for index in range(len(plain)):
        given = [t.as_subclass(Tagged) if i == index else t for i, t in enumerate(plain)]
        results = case.found(*given)
        assert {type(result) for result in results} == {Tagged}
        torch.testing.assert_close([result.as_subclass(Tensor) for result in results], list(case.expected(*plain)))


class Wrapped(Tensor):
    """A user's subclass that holds a tensor and counts operators, through __torch_dispatch__."""

    inner: Tensor
    seen: ClassVar[list[Any]] = []

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)
        made.inner = inner.detach()
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func)
        args, kwargs = pytree.tree_map_only(cls, lambda tensor: tensor.inner, (args, kwargs or {}))
        return pytree.tree_map_only(Tensor, cls, func(*args, **kwargs))


@each_operator
def test_a_dispatch_subclass_takes_part_in_forward_and_backward(case: Case):
    plain = case.make()
    wrapped = [Wrapped(tensor.detach()).requires_grad_() for tensor in plain]
    Wrapped.seen.clear()
    results = case.found(*wrapped)
    assert Wrapped.seen.count(case.operator.torch_op) == 1
    assert {type(result) for result in results} == {Wrapped}
    sum(result.sum() for result in results).backward()
    expected = torch.autograd.grad(sum(result.sum() for result in case.expected(*plain)), plain)
    for tensor, exact in zip(wrapped, expected, strict=True):
        assert type(tensor.grad) is Wrapped
        torch.testing.assert_close(tensor.grad.inner, exact)


@each_case
def test_meta_tensors_give_the_form_of_the_result(case: Case):
    arguments = case.make(device="meta")
    found, real = case.found(*arguments), case.found(*case.make())
    assert [tensor.device.type for tensor in found] == ["meta"] * len(real)
    assert [(t.shape, t.stride(), t.dtype) for t in found] == [(t.shape, t.stride(), t.dtype) for t in real]
    torch.autograd.grad(sum(result.sum() for result in found), arguments, allow_unused=True)


@each_case
def test_fake_tensors(case: Case):
    with FakeTensorMode() as mode:
        arguments = [mode.from_tensor(tensor) for tensor in case.make()]
        found = case.found(*arguments)
        gradients = torch.autograd.grad(sum(result.sum() for result in found), arguments, allow_unused=True)
    assert all(isinstance(result, FakeTensor) for result in found)
    assert [g.shape for g in gradients if g is not None] == [
        a.shape for a, g in zip(arguments, gradients, strict=True) if g is not None
    ]


def test_fake_and_real_tensors_cannot_be_mixed():
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(3))
    for function in (add2, torch.add):
        with pytest.raises(Exception, match="Please convert all Tensors to FakeTensors"):
            function(fake, torch.ones(3))


def test_a_module_on_the_meta_device_and_back():
    cell = LLTMCell(2, 4, device="meta")
    hidden, new_cell = cell(torch.empty(3, 2, device="meta"))
    assert hidden.is_meta
    assert new_cell.shape == (3, 4)
    real = cell.to_empty(device="cpu")
    real.reset_parameters()
    assert torch.isfinite(real(torch.randn(3, 2))[0]).all()


def test_the_names_that_pytorch_prints():
    assert str(add2.torch_op) == "opsmith.add2.default"
    assert add2.__name__ == "add2"
    assert "expanded" in add2.__doc__
    assert torch.ops.opsmith.lltm_cell.default is lltm_cell.torch_op
