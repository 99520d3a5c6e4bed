"""Graphs that leave the process: torch.export, AOTInductor, make_fx; and TorchScript's answers."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from compose_kit.table import FORWARD, Case, each_case, each_operator, each_traced, needs_bridge
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTM, LLTMCell
from opsmith.ops.sigmoid import sigmoid
from some import some

pytestmark = [
    pytest.mark.compile,
    # PyTorch's own, from torch.export's decompositions.
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
]


class Calls(nn.Module):
    """A module around one operator, between others."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        return tuple(output * 2 for output in self.case.found(*(argument + 1 for argument in arguments)))


def targets(graph_module: torch.fx.GraphModule) -> list[object]:
    return [node.target for node in graph_module.graph.nodes if node.op == "call_function"]


def dynamic(case: Case, name: str = "arguments") -> tuple[dict[int, Dim] | None, ...]:
    batch = Dim("batch", min=2)
    return tuple({0: batch} if index in case.batched else {} for index in range(len(case.shapes)))


@each_traced
@pytest.mark.parametrize("is_dynamic", some([True, False], 1, "exports every operator"), ids=["dynamic", "static"])
def test_export_and_run(case: Case, is_dynamic: bool):
    module, arguments = Calls(case), case.make(requires_grad=False)
    program = export(module, arguments, dynamic_shapes=(dynamic(case),) if is_dynamic else None)
    assert targets(program.graph_module).count(case.operator.torch_op) == 1
    for batch in (3, 7) if is_dynamic else (3,):
        others = case.make(batch, seed=2, requires_grad=False)
        torch.testing.assert_close(program.module()(*others), module(*others))
    # Decomposition must not look into the operator either.
    assert case.operator.torch_op in targets(program.run_decompositions().graph_module)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")  # torch 2.11's own
def test_a_saved_program_is_loaded_again(tmp_path: Path):
    cell = LLTMCell(2, 4)
    inputs = torch.randn(3, 2)
    torch.export.save(export(cell, (inputs,)), tmp_path / "cell.pt2")
    loaded = torch.export.load(tmp_path / "cell.pt2").module()
    torch.testing.assert_close(loaded(inputs), cell(inputs))


def test_export_a_sequence_with_a_dynamic_batch():
    model = LLTM(2, 4)
    program = export(model, (torch.randn(3, 5, 2),), dynamic_shapes=({1: Dim("batch", min=2)},))
    inputs = torch.randn(3, 9, 2)
    torch.testing.assert_close(program.module()(inputs), model(inputs))


def test_export_for_training_keeps_gradients_possible():
    cell = LLTMCell(2, 4)
    module = export(cell, (torch.randn(3, 2),)).module()
    module(torch.randn(3, 2))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.nightly("compiles every operator ahead of time; make test exports and runs them"),
        )
        for case in FORWARD
    ],
)
def test_aot_inductor(case: Case, tmp_path: Path):
    module, arguments = Calls(case), case.make(dtype=torch.float32, requires_grad=False)
    program = export(module, arguments, dynamic_shapes=(dynamic(case),))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    loaded = torch._inductor.aoti_load_package(package)
    for batch in (3, 7):
        others = case.make(batch, dtype=torch.float32, seed=2, requires_grad=False)
        torch.testing.assert_close(tuple(loaded(*others)), module(*others))


@each_case
@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_make_fx(case: Case, tracing_mode: str):
    arguments = case.make(requires_grad=False)
    traced = make_fx(case.found, tracing_mode=tracing_mode)(*arguments)
    assert targets(traced).count(case.operator.torch_op) == 1
    others = case.make(5 if tracing_mode == "symbolic" else 3, seed=2, requires_grad=False)
    torch.testing.assert_close(tuple(traced(*others)), case.expected(*others))


@each_operator
def test_make_fx_of_a_backward_holds_both_operators(case: Case):
    def both(*arguments: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(case.total(*arguments), arguments)

    traced = make_fx(both, tracing_mode="symbolic")(*case.make())
    assert targets(traced).count(case.operator.torch_op) == 1
    if case.name != "add2":  # whose gradient is the incoming one
        assert targets(traced).count(case.operator.gradient.torch_op) == 1
    others = case.make(5, seed=2)
    torch.testing.assert_close(traced(*others), torch.autograd.grad(case.expected_total(*others), others))


@needs_bridge
@each_operator
def test_make_fx_of_torch_func_grad(case: Case):
    which = tuple(range(len(case.shapes)))
    arguments = case.make(requires_grad=False)
    traced = make_fx(torch.func.grad(case.total, which), tracing_mode="symbolic")(*arguments)
    assert case.operator.torch_op in targets(traced)
    others = case.make(5, seed=2, requires_grad=False)
    torch.testing.assert_close(traced(*others), torch.func.grad(case.expected_total, which)(*others))


@each_case
def test_functionalization(case: Case):
    function = torch.func.functionalize(case.found)
    arguments = case.make(requires_grad=False)
    torch.testing.assert_close(function(*arguments), case.expected(*arguments))
    assert case.operator.torch_op in targets(make_fx(function)(*arguments))


@each_operator
def test_jit_trace(case: Case):
    arguments = case.make(requires_grad=False)

    def call(*given: Tensor) -> tuple[Tensor, ...]:
        return case.found(*given)

    traced = torch.jit.trace(call, arguments)
    assert f"opsmith::{case.name}" in str(traced.graph)
    others = case.make(5, seed=2, requires_grad=False)
    torch.testing.assert_close(tuple(traced(*others)), case.expected(*others))


def test_jit_trace_of_a_module_saves_and_loads(tmp_path: Path):
    cell, inputs = LLTMCell(2, 4), torch.randn(3, 2)
    state = (torch.randn(3, 4), torch.randn(3, 4))
    traced = torch.jit.trace(cell, (inputs, state))
    traced.save(str(tmp_path / "cell.pt"))
    torch.testing.assert_close(torch.jit.load(str(tmp_path / "cell.pt"))(inputs, state), cell(inputs, state))


def scripted_by_object(x: Tensor) -> Tensor:
    return add2(x, x)


def scripted_by_name(x: Tensor) -> Tensor:
    return torch.ops.opsmith.sigmoid(x)


def test_jit_script_refuses_the_callable_and_points_at_it():
    # TorchScript compiles source text, and an operator's callable is not a function of it; its name in torch.ops is.
    with pytest.raises((RuntimeError, ValueError), match=r"return add2\(x, x\)"):
        torch.jit.script(scripted_by_object)


def test_jit_script_takes_the_operator_by_its_name():
    sigmoid.load()
    scripted = torch.jit.script(scripted_by_name)
    torch.testing.assert_close(scripted(torch.ones(3)), torch.sigmoid(torch.ones(3)))


def test_fx_symbolic_trace_of_a_module():
    class Both(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return sigmoid(add2(x, y))

    x, y = torch.randn(3), torch.randn(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.fx.symbolic_trace(Both())
    torch.testing.assert_close(traced(x, y), torch.sigmoid(x + y))
    assert len(targets(traced)) == 2
