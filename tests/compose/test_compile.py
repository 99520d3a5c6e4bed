"""torch.compile takes a function that calls the operators as one graph, forward and backward, for every size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from compose_kit.table import BACKWARD, FORWARD, Case, each_operator, each_traced, needs_bridge
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTM, LLTMCell, lltm_gates
from opsmith.ops.sigmoid import Sigmoid, sigmoid
from some import some

pytestmark = pytest.mark.compile


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def run(function: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = tuple(argument.detach().clone().requires_grad_() for argument in arguments)
    total = function(*leaves)
    return total.detach(), torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def surrounded(case: Case) -> Callable[..., Tensor]:
    """Return a function with the operator between others, so that there is something to fuse it with."""
    return lambda *arguments: case.total(*(argument * 1.5 for argument in arguments)).exp()


def compare(case: Case, *, batches: tuple[int, ...] = (3, 5), **options: Any) -> None:
    compiled = torch.compile(surrounded(case), fullgraph=True, **options)
    for batch in batches:
        arguments = case.make(batch)
        torch.testing.assert_close(run(compiled, arguments), run(surrounded(case), arguments))
    assert not counters["graph_break"]


@each_traced
def test_one_graph_forward_and_backward(case: Case):
    compare(case, backend="aot_eager")


@pytest.mark.parametrize(
    "case",
    some(FORWARD, 0, "compiles with Inductor", at_most=2),
    ids=lambda case: case.name,
)
def test_inductor(case: Case):
    compare(case, backend="inductor", dynamic=True)


@pytest.mark.nightly("compiles every backward with Inductor; make test traces them")
@pytest.mark.parametrize("case", BACKWARD, ids=lambda case: case.name)
@pytest.mark.parametrize(("dynamic", "batches"), [(False, (3,)), (True, (3, 5))], ids=["fixed", "dynamic"])
def test_inductor_of_backward_operators(case: Case, dynamic: bool, batches: tuple[int, ...]):
    # With fixed sizes a second batch would be another compilation of the same kind.
    compare(case, batches=batches, backend="inductor", dynamic=dynamic)


@pytest.mark.nightly("compiles every operator once more with Inductor; make test-all has dynamic sizes")
@each_operator
def test_inductor_with_fixed_sizes(case: Case):
    compare(case, batches=(3,), backend="inductor", dynamic=False)


@each_traced
def test_dynamic_sizes_compile_once(case: Case):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(case.total, backend=counter, fullgraph=True, dynamic=True)
    for batch in (3, 5, 8, 13):
        arguments = case.make(batch)
        torch.testing.assert_close(run(compiled, arguments), run(case.total, arguments))
    assert counter.frame_count == 1


@each_operator
def test_sizes_that_turn_out_dynamic_compile_twice(case: Case):
    # Without `dynamic=True` PyTorch takes sizes for fixed until the second one comes.
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(case.total, backend=counter, fullgraph=True)
    for batch in (3, 5, 8, 13):
        compiled(*case.make(batch))
    assert counter.frame_count == 2


@each_operator
def test_the_graph_holds_the_plain_operator(case: Case):
    counter = CompileCounterWithBackend("aot_eager")
    torch.compile(case.found, backend=counter, fullgraph=True)(*case.make())
    (graph,) = counter.graphs
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert [target for target in targets if isinstance(target, torch._ops.OpOverload)] == [case.operator.torch_op]


@pytest.mark.parametrize("make", [LLTMCell, LLTM], ids=["LLTMCell", "LLTM"])
def test_a_compiled_module_trains_as_the_module_does(make: Callable[..., torch.nn.Module]):
    inputs = torch.randn(4, 3, 2, dtype=torch.float64)[: None if make is LLTM else 1].squeeze(0)
    trained = []
    for is_compiled in (False, True):
        torch.manual_seed(1)
        module = make(2, 4, dtype=torch.float64)
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
        function = torch.compile(module, backend="aot_eager", fullgraph=True) if is_compiled else module
        for _ in range(3):
            optimiser.zero_grad()
            function(inputs)[0].square().sum().backward()
            optimiser.step()
        trained.append([parameter.detach() for parameter in module.parameters()])
    torch.testing.assert_close(trained[1], trained[0])


def test_module_compile_in_place():
    module = Sigmoid()
    module.compile(backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(module(torch.ones(3)), torch.sigmoid(torch.ones(3)))


@each_operator
def test_no_grad_inside_and_outside_of_a_graph(case: Case):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def quiet(*arguments: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return case.found(*arguments)

    assert not any(output.requires_grad for output in quiet(*case.make()))
    with torch.no_grad():
        outputs = torch.compile(case.found, backend="aot_eager", fullgraph=True)(*case.make())
    torch.testing.assert_close(outputs, case.expected(*case.make()))


def test_keyword_arguments_in_a_graph():
    compiled = torch.compile(lambda g, c: lltm_gates(cell=c, gates=g)[0], backend="aot_eager", fullgraph=True)
    gates, cell = torch.randn(3, 12), torch.randn(3, 4)
    torch.testing.assert_close(compiled(gates, cell), lltm_gates(gates, cell)[0])


def test_torch_func_inside_a_graph():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def per_sample(x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: sigmoid(row).square().sum()))(x)

    x = torch.randn(3, 4)
    s = torch.sigmoid(x)
    torch.testing.assert_close(per_sample(x), 2 * s * s * (1 - s))


def test_a_checkpoint_inside_a_graph():
    def block(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(lambda y: sigmoid(y).sin().sum(), x, use_reentrant=False)

    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    x = torch.randn(3)
    torch.testing.assert_close(run(compiled, (x,)), run(block, (x,)))


def test_a_wrong_call_in_a_graph_names_the_argument():
    with pytest.raises(Exception, match=r"add2\(\): b has the sizes \(4\)"):
        torch.compile(add2, backend="aot_eager", fullgraph=True)(torch.ones(3), torch.ones(4))


@needs_bridge
def test_compiled_autograd_refuses_the_node_by_name():
    y = sigmoid(torch.randn(3, 4, requires_grad=True))
    with (
        torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")),
        pytest.raises(NotImplementedError, match="compiled_args not implemented: SigmoidBackward"),
    ):
        y.sum().backward()


# PyTorch captures an empty graph to set up its memory pool, and catches this only where warnings are no errors.
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")
@pytest.mark.gpu
@pytest.mark.slow("compiles every operator with Inductor; make test traces them")
@pytest.mark.parametrize("case", FORWARD, ids=lambda case: case.name)
def test_reduce_overhead(case: Case):
    """CUDA graphs: captured, replayed, with new values each time."""
    compiled = torch.compile(surrounded(case), fullgraph=True, mode="reduce-overhead")
    for seed in range(5):
        arguments = case.make(device="cuda", dtype=torch.float32, seed=seed)
        torch.compiler.cudagraph_mark_step_begin()
        found = run(compiled, arguments)
        torch.testing.assert_close(found, run(surrounded(case), arguments), rtol=1e-4, atol=1e-5)
    assert counters["inductor"]["cudagraph_skips"] == 0
