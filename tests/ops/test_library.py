"""The operators of opsmith.ops give the reference's values and gradients, on the CPU and on a GPU, however tensors lie."""

from __future__ import annotations

import pytest
import torch
from operator_cases import CASES, Case, as_tuple, in_float64, is_floating, with_gradients

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_gates
from opsmith.ops.sigmoid import sigmoid
from some import some

pytestmark = pytest.mark.compile

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
# Relative error of one rounding in each type; the kernels round once, after computing in float32 or wider. A few more for
# the polynomials and for cancellation (1 - tanh^2).
ROUNDING = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DTYPES = list(ROUNDING)


cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
devices = pytest.mark.parametrize("device", DEVICES)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def visible(case: Case, results):
    outputs = case.operator.definition.signature.outputs
    return tuple(result for output, result in zip(outputs, as_tuple(results), strict=True) if not output.saved)


def gradients(function, arguments, seeds):
    given = with_gradients(arguments)
    leaves = [one for one in given if is_floating(one)]
    outputs = as_tuple(function(*given))[: len(seeds)]
    return torch.autograd.grad(outputs, leaves, [seed.to(output) for seed, output in zip(seeds, outputs, strict=True)])


def assert_near(found, expected, dtype, scale=1.0):
    assert len(found) == len(expected)
    for actual, exact in zip(found, expected, strict=True):
        assert actual.dtype == dtype
        error = (actual.double() - exact).abs()
        bound = scale * ROUNDING[dtype] * (1 + exact.abs())
        assert torch.all(error <= bound), f"largest error {(error / bound).max().item():.2f} of what is allowed"


@cases
@devices
@dtypes
def test_value_is_the_references_in_float64(case, device, dtype):
    arguments = case.inputs(device, dtype)
    expected = visible(case, case.operator.reference(*in_float64(arguments)))
    assert_near(as_tuple(case.operator(*arguments)), expected, dtype, case.rounding)


@cases
@devices
@dtypes
def test_gradient_is_the_references_in_float64(case, device, dtype):
    arguments = case.inputs(device, dtype)
    exact = in_float64(arguments)
    outputs = visible(case, case.operator.reference(*exact))
    generator = torch.Generator().manual_seed(11)
    seeds = [
        torch.randn(output.shape, generator=generator, dtype=torch.float64).to(device, dtype) for output in outputs
    ]
    expected = gradients(case.operator.reference, exact, [seed.double() for seed in seeds])
    assert_near(gradients(case.operator, arguments, seeds), expected, dtype, case.gradient_rounding)


@cases
@devices
def test_gradcheck_and_gradgradcheck(case, device):
    arguments = with_gradients(case.make(case.tiny, device, torch.float64, 7))
    assert torch.autograd.gradcheck(case.operator, arguments)
    assert torch.autograd.gradgradcheck(case.operator, arguments)


def strided(tensor: torch.Tensor, how: str) -> torch.Tensor:
    """The same values in another layout."""
    if how == "every second":
        wide = torch.empty((*tensor.shape[:-1], 2 * tensor.shape[-1]), dtype=tensor.dtype, device=tensor.device)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if how == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    # One element in: no 16-byte access is aligned any more.
    flat = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    flat[1:] = tensor.flatten()
    return flat[1:].view(tensor.shape)


@cases
@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("how", ["every second", "transposed", "offset by one"])
def test_layout_does_not_change_the_values(case, device, dtype, how):
    arguments = case.inputs(device, dtype)
    expected = as_tuple(case.operator(*arguments))
    found = as_tuple(case.operator(*(strided(one, how) if is_floating(one) else one for one in arguments)))
    for actual, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(
            actual, reference, **({"rtol": 0, "atol": 0} if case.is_exact else {"rtol": 2e-2, "atol": 2e-2})
        )


@cases
@devices
def test_expanded_inputs(case, device):
    given = case.inputs(device, torch.float32)
    arguments = [one[:1].expand_as(one) if is_floating(one) else one for one in given]
    contiguous = [one.contiguous() if is_floating(one) else one for one in arguments]
    expected = as_tuple(case.operator(*contiguous))
    torch.testing.assert_close(as_tuple(case.operator(*arguments)), expected)


@cases
@devices
def test_empty_batch_gives_empty_results_and_zero_gradients(case, device):
    arguments = case.inputs(device, torch.float32)
    batch = case.shapes[0][0]
    has_batch = [isinstance(one, torch.Tensor) and one.shape[0] == batch for one in arguments]
    empty = [one[:0] if has else one for one, has in zip(arguments, has_batch, strict=True)]
    given = with_gradients(empty)
    outputs = as_tuple(case.operator(*given))
    assert all(output.numel() == 0 or output.dim() == 0 for output in outputs)  # a sum of nothing is one number
    sum(output.sum() for output in outputs).backward()
    for leaf in filter(is_floating, given):
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("operator", [sigmoid, add2], ids=["sigmoid", "add2"])
@devices
def test_elementwise_operators_take_zero_dimensions(operator, device):
    arguments = [torch.tensor(0.5, device=device)] * (2 if operator is add2 else 1)
    assert operator(*arguments).shape == ()
    torch.testing.assert_close(operator(*arguments), operator.reference(*arguments))


@devices
def test_elementwise_results_keep_channels_last(device):
    x = torch.randn(2, 5, 3, 4, device=device).to(memory_format=torch.channels_last)
    y = sigmoid(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, torch.sigmoid(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@devices
def test_add2_of_integers(dtype, device):
    a, b = torch.arange(100, device=device).to(dtype), torch.full((100,), 7, device=device, dtype=dtype)
    assert torch.equal(add2(a, b), a + b)


@devices
@pytest.mark.parametrize("gate", [0.0, -0.0, 88.8, 1e4, -1e4, 3e38])
def test_lltm_gradient_is_right_where_the_published_one_fails(gate, device):
    """The tutorial's gradient is NaN for gates above 88.7, and 0 instead of 1 times the rest at c = 0."""
    gates = torch.zeros(1, 3, device=device)
    gates[0, 2] = gate
    seeds = [torch.ones(1, 1, device=device)] * 2
    found = gradients(lltm_gates, [gates, torch.full((1, 1), 0.25, device=device)], seeds)
    exact = [gates.double(), torch.full((1, 1), 0.25, device=device, dtype=torch.float64)]
    expected = gradients(lltm_gates.reference, exact, [seed.double() for seed in seeds])
    for actual, reference in zip(found, expected, strict=True):
        assert torch.isfinite(actual).all()
        torch.testing.assert_close(actual.double(), reference, rtol=1e-5, atol=1e-6)


@devices
def test_nan_goes_through(device):
    gates = torch.zeros(2, 6, device=device)
    gates[0, 0] = float("nan")
    hidden, cell = lltm_gates(gates, torch.zeros(2, 2, device=device))
    assert hidden[0, 0].isnan() and cell[0, 0].isnan()
    assert not hidden[1].isnan().any()
    assert sigmoid(torch.tensor([float("nan"), 0.0], device=device)).isnan().tolist() == [True, False]


def stacked(arguments, others):
    """The arguments of two calls as those of one, and the dimension that tells the calls apart."""
    pairs = list(zip(arguments, others, strict=True))
    both = [torch.stack(pair) if isinstance(pair[0], torch.Tensor) else pair[0] for pair in pairs]
    return both, tuple(0 if isinstance(one, torch.Tensor) else None for one in both)


@cases
@devices
def test_vmap_is_a_loop(case, device):
    calls = [case.make(case.shapes, device, torch.float64, seed) for seed in (1, 2)]
    both, dims = stacked(*calls)
    found = as_tuple(torch.vmap(case.operator, in_dims=dims)(*both))
    expected = [torch.stack(pair) for pair in zip(*(as_tuple(case.operator(*call)) for call in calls), strict=True)]
    torch.testing.assert_close(found, tuple(expected))


@pytest.mark.parametrize("case", some(CASES, 3, "traces of every operator"), ids=lambda case: case.name)
@devices
def test_compiled_for_any_size_it_gives_the_same(case, device):
    torch._dynamo.reset()
    # The compiler behind the graph is not what is tested: aot_eager traces all that inductor does, and starts none.
    compiled = torch.compile(case.operator, fullgraph=True, dynamic=True, backend="aot_eager")
    arguments = case.inputs(device, torch.float64)
    batch = case.shapes[0][0]
    for size in (batch, batch - 1, batch - 2):
        part = [one[:size] if isinstance(one, torch.Tensor) and one.shape[0] == batch else one for one in arguments]
        seeds = [torch.ones_like(output) for output in as_tuple(case.operator(*part))]
        torch.testing.assert_close(as_tuple(compiled(*part)), as_tuple(case.operator(*part)))
        torch.testing.assert_close(gradients(compiled, part, seeds), gradients(case.operator, part, seeds))


@devices
def test_elementwise_operators_keep_their_type_under_autocast(device):
    x, y = torch.randn(50, device=device), torch.randn(50, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        alone, mixed = sigmoid(x), add2(x, y.bfloat16())
    assert torch.equal(alone, sigmoid(x))
    assert mixed.dtype == torch.float32  # as torch.add has it: of two types the wider
    assert torch.equal(mixed, x + y.bfloat16().float())


@pytest.fixture
def mesh_of(tmp_path):
    """Makes a mesh of one device: placements go through an operator as they do on many."""
    if not torch.distributed.is_available():
        pytest.skip("this torch is built without torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield lambda device: init_device_mesh(device, (1,))
    torch.distributed.destroy_process_group()


@devices
def test_elementwise_operators_run_on_sharded_tensors_where_they_are(device, mesh_of):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = mesh_of(device)
    a, b = torch.randn(6, 4, device=device), torch.randn(6, 4, device=device)
    for placement in (Shard(0), Shard(1), Replicate()):
        x, y = (distribute_tensor(one, mesh, [placement]).requires_grad_() for one in (a, b))
        result = sigmoid(add2(x, y))
        assert result.placements == (placement,)
        torch.testing.assert_close(result.to_local(), torch.sigmoid(a + b))
        result.sum().backward()
        assert x.grad.placements == y.grad.placements == (placement,)


@cases
@devices
def test_opcheck(case, device):
    arguments = with_gradients(case.inputs(device, torch.float64))
    torch.library.opcheck(case.operator.torch_op, tuple(arguments))


def test_there_is_one_cpu():
    """Tensors on "cpu" and on "cpu:0" go together, as in PyTorch, in C++ and in Python."""
    a, b = torch.ones(3), torch.ones(3, device="cpu:0")
    assert torch.equal(add2(a, b), torch.full((3,), 2.0))
    assert torch.equal(add2(b, a), torch.full((3,), 2.0))


@devices
@pytest.mark.parametrize("used", [0, 1], ids=["hidden", "new_cell"])
def test_one_of_two_results_may_be_differentiated_alone(device, used):
    gates = torch.randn(3, 12, device=device, dtype=torch.float64, requires_grad=True)
    cell = torch.randn(3, 4, device=device, dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(lltm_gates(gates, cell)[used].sum(), (gates, cell))
    expected = torch.autograd.grad(lltm_gates.reference(gates, cell)[used].sum(), (gates, cell))
    torch.testing.assert_close(found, expected)
