"""Native kernels: sizes that depend on data, PyTorch's own operators, several sources, and results that are checked."""

from __future__ import annotations

import pytest
import torch
from kit import arguments, natives, shapes
from kit.agreement import agree
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_size_that_only_the_kernel_knows(dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, -1, 2, 0, 3]).to(dtype)
    values, places = natives.positives(x)
    assert (values.tolist(), places.tolist()) == ([0.5, 2, 3], [0, 2, 4])
    assert natives.positives(x, 2)[1].tolist() == [0, 2]
    assert natives.positives(-x.abs())[0].shape == (0,)


def test_the_fake_kernel_gives_an_unbacked_size() -> None:
    def positives(x: Tensor) -> tuple[Tensor, Tensor]:
        return natives.positives(x)

    graph = make_fx(positives, tracing_mode="symbolic")(torch.randn(5))
    values, places = (node.meta["val"] for node in list(graph.graph.nodes)[-1].args[0])
    size = values.shape[0]
    assert isinstance(size, torch.SymInt)
    assert not size.node.has_hint()
    assert str(places.shape[0]) == str(size)
    x = torch.tensor([1.0, -1, 1, 1, -1])
    assert graph(x)[1].tolist() == [0, 2, 3]


@pytest.mark.slow("exports a program")
def test_an_unbacked_size_goes_through_export_and_into_the_next_operator() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values, _ = natives.positives(x)
            return shapes.row_sums(values * 2)

    exported = torch.export.export(Model(), (torch.randn(8),), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    x = torch.randn(20)
    torch.testing.assert_close(exported.module()(x), (x[x > 0] * 2).sum())


def test_two_unbacked_sizes_that_must_agree_become_an_assertion_of_the_graph() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            a, b = natives.positives(x)[0], natives.positives(y)[0]
            stretched = shapes.split_gates(a[None], torch.cat([b, b]))
            return arguments.shift(torch.outer(a, a), b), stretched

    x, y = torch.tensor([1.0, 2, 3, -1]), torch.tensor([4.0, -1, 5, 6, -1])
    exported = torch.export.export(Model(), (x, y)).module()
    torch.testing.assert_close(exported(x, y), Model()(x, y))
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        exported(x, -y)


def test_pytorch_s_own_operators_can_be_called() -> None:
    x, weight, bias = torch.randn(3, 4), torch.randn(2, 4), torch.randn(2)
    agree(natives.linear, x, weight, bias)
    agree(natives.linear, x.expand(3, 4), weight.t().contiguous().t())


def test_several_sources_with_flags_and_an_entry_in_a_namespace() -> None:
    xs = [torch.randn(4, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]
    torch.testing.assert_close(natives.triple(xs, [1.0, 2.0], "label"), 3 * xs[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("size", "lie(): the output out has size 5 in dimension 0, expected N = 4 (from x)"),
        ("rank", 'lie(): the output out has 2 dimensions, expected 1: Float[Tensor, "N"]'),
        ("dtype", "lie(): the output out is bool, expected float32 as the inputs"),
        ("undefined", "lie(): the output out is an undefined tensor"),
        ("throw", "told to fail with 3 words"),
        ("error", "the call of aten::mm failed"),
    ],
)
def test_what_a_native_kernel_returns_is_checked(what: str, words: str) -> None:
    agree(natives.lie, torch.randn(4), "")
    with pytest.raises(RuntimeError) as error:
        natives.lie(torch.randn(4), what)
    assert words in str(error.value)


def test_several_outputs_share_the_size_that_only_the_kernel_knows() -> None:
    first, second = natives.halves(torch.arange(12.0).view(2, 6), lie=False)
    assert (first.tolist(), second.tolist()) == ([[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]])
    with pytest.raises(RuntimeError, match="the output second has size 2 in dimension 1, expected K = 3"):
        natives.halves(torch.zeros(2, 6), lie=True)
    with pytest.raises(RuntimeError, match=r"the output second has the sizes \(1, 2\) for \*b, expected \(2, 2\)"):
        natives.halves(torch.zeros(2, 2, 6), lie=True)
