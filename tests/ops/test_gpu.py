"""On a GPU operators run on the current stream and device, can be captured, index beyond 32 bits, and never fall back."""

from __future__ import annotations

import pytest
import torch

from opsmith.errors import DeviceError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTM, lltm_cell, lltm_gates
from opsmith.ops.mlp import mlp
from opsmith.ops.sigmoid import sigmoid

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

OPERATORS = [
    pytest.param(add2, ((1 << 20,), (1 << 20,)), id="add2"),
    pytest.param(sigmoid, ((1 << 20,),), id="sigmoid"),
    pytest.param(lltm_gates, ((512, 3 * 256), (512, 256)), id="lltm_gates"),
    pytest.param(lltm_cell, ((64, 32), (64, 64), (64, 64), (192, 96), (192,)), id="lltm_cell"),
    pytest.param(mlp, ((64, 32), (128, 32), (128,), (10, 128), (10,)), id="mlp"),
    pytest.param(mlp, ((512, 256), (1024, 256), (1024,), (256, 1024), (256,)), id="mlp-by-PyTorchs-products"),
]
operators = pytest.mark.parametrize(("operator", "shapes"), OPERATORS)


def tensors(shapes):
    return [torch.randn(shape, device="cuda") for shape in shapes]


def flat(results):
    return results if isinstance(results, tuple) else (results,)


def test_there_is_a_kernel_for_the_gpu_and_not_the_body():
    for operator in (add2, sigmoid, lltm_gates, lltm_cell, mlp):
        assert operator.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


@operators
def test_work_is_queued_on_the_current_stream(operator, shapes):
    arguments = tensors(shapes)
    operator(*arguments)
    expected = [result.clone() for result in flat(operator.reference(*arguments))]
    stream = torch.cuda.Stream()
    late = [torch.zeros_like(argument) for argument in arguments]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # The stream is busy for some milliseconds before the inputs are there: a kernel on any other stream reads zeros.
        torch.cuda._sleep(50_000_000)
        for target, source in zip(late, arguments, strict=True):
            target.copy_(source, non_blocking=True)
        found = flat(operator(*late))
    stream.synchronize()
    for actual, reference in zip(found, expected, strict=False):
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@operators
def test_capture_and_replay(operator, shapes):
    static = tensors(shapes)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            operator(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        captured = flat(operator(*static))
    for target, source in zip(static, tensors(shapes), strict=True):
        target.copy_(source)
    graph.replay()
    torch.cuda.synchronize()
    for actual, reference in zip(captured, flat(operator.reference(*static)), strict=False):
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@operators
def test_runs_are_equal_bit_for_bit(operator, shapes):
    arguments = tensors(shapes)
    first, second = flat(operator(*arguments)), flat(operator(*arguments))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_tensors_on_two_devices_are_refused():
    with pytest.raises(DeviceError, match=r"b is on cpu, but a is on cuda:0"):
        add2(torch.ones(3, device="cuda"), torch.ones(3))
    with pytest.raises(DeviceError, match=r"cell is on cuda:0, but gates is on cpu"):
        lltm_gates(torch.ones(1, 3), torch.ones(1, 1, device="cuda"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@operators
def test_the_device_of_the_tensors_is_used_and_the_current_one_kept(operator, shapes):
    arguments = [argument.to("cuda:1") for argument in tensors(shapes)]
    found = flat(operator(*arguments))
    assert torch.cuda.current_device() == 0
    for actual, reference in zip(found, flat(operator.reference(*arguments)), strict=False):
        assert actual.device == torch.device("cuda:1")
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_more_than_two_to_the_31_elements():
    count = (1 << 31) + 1000
    if torch.cuda.get_device_properties(0).total_memory < 6 * count:
        pytest.skip("needs 14 GB of GPU memory")
    x = torch.zeros(count, dtype=torch.float16, device="cuda")
    x[-1] = 8.0
    y = sigmoid(x)
    assert y[0].item() == 0.5
    assert y[-1].item() == pytest.approx(0.99966, abs=1e-3)
    del y
    assert add2(x, x)[-1].item() == 16.0


def test_an_lltm_trains_on_the_gpu():
    torch.manual_seed(0)
    model = LLTM(4, 16).cuda()
    x, target = torch.randn(6, 32, 4, device="cuda"), torch.randn(32, 16, device="cuda").tanh()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.mse_loss(model(x)[1][0], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
def test_compiled_forward_and_backward():
    @torch.compile(fullgraph=True, dynamic=True)
    def step(gates, cell):
        hidden, new_cell = lltm_gates(gates, cell)
        return (hidden * new_cell).sum()

    for batch in (3, 8):
        arguments = [torch.randn(batch, 12, device="cuda"), torch.randn(batch, 4, device="cuda")]
        leaves = [argument.clone().requires_grad_() for argument in arguments]
        step(*leaves).backward()
        exact = [argument.clone().requires_grad_() for argument in arguments]
        hidden, new_cell = lltm_gates.reference(*exact)
        (hidden * new_cell).sum().backward()
        for leaf, reference in zip(leaves, exact, strict=True):
            torch.testing.assert_close(leaf.grad, reference.grad)
