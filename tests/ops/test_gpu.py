"""On a GPU operators run on the current stream and device, can be captured, index beyond 32 bits, and never fall back."""

from __future__ import annotations

import pytest
import torch
from graphs import capture
from operator_cases import CASES, as_tuple, is_floating, with_gradients

from opsmith.errors import DeviceError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTM, lltm_gates
from opsmith.ops.sigmoid import sigmoid, sigmoid_backward

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def tensors(case, device="cuda", seed=0):
    return case.make(case.large, device, torch.float32, seed)


def copy_tensors(targets, sources):
    for target, source in zip(targets, sources, strict=True):
        if isinstance(target, torch.Tensor):
            target.copy_(source, non_blocking=True)


def test_there_is_a_kernel_for_the_gpu_and_not_the_body():
    for case in CASES:
        assert case.operator.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


@cases
def test_work_is_queued_on_the_current_stream(case):
    arguments = tensors(case)
    case.operator(*arguments)
    expected = [result.clone() for result in as_tuple(case.operator.reference(*arguments))]
    stream = torch.cuda.Stream()
    late = [torch.zeros_like(one) if isinstance(one, torch.Tensor) else one for one in arguments]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # The stream is busy for some milliseconds before the inputs are there: a kernel on any other stream reads zeros.
        torch.cuda._sleep(50_000_000)
        copy_tensors(late, arguments)
        found = as_tuple(case.operator(*late))
    stream.synchronize()
    for actual, reference in zip(found, expected, strict=False):
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@cases
def test_capture_and_replay(case):
    static = tensors(case)
    with torch.no_grad():
        graph, captured = capture(lambda: as_tuple(case.operator(*static)))
    copy_tensors(static, tensors(case, seed=1))
    graph.replay()
    torch.cuda.synchronize()
    for actual, reference in zip(captured, as_tuple(case.operator.reference(*static)), strict=False):
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@cases
def test_capture_and_replay_of_a_gradient(case):
    static = with_gradients(tensors(case))
    leaves = [one for one in static if is_floating(one)]

    def step():
        outputs = as_tuple(case.operator(*static))
        return torch.autograd.grad(outputs, leaves, [torch.ones_like(output) for output in outputs])

    graph, captured = capture(step)
    with torch.no_grad():
        copy_tensors(static, tensors(case, seed=1))
    graph.replay()
    torch.cuda.synchronize()
    for actual, expected in zip(captured, step(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@cases
def test_runs_are_equal_bit_for_bit(case):
    arguments = tensors(case)
    first, second = as_tuple(case.operator(*arguments)), as_tuple(case.operator(*arguments))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_tensors_on_two_devices_are_refused():
    with pytest.raises(DeviceError, match=r"b is on cpu, but a is on cuda:0"):
        add2(torch.ones(3, device="cuda"), torch.ones(3))
    with pytest.raises(DeviceError, match=r"cell is on cuda:0, but gates is on cpu"):
        lltm_gates(torch.ones(1, 3), torch.ones(1, 1, device="cuda"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@cases
def test_the_device_of_the_tensors_is_used_and_the_current_one_kept(case):
    arguments = tensors(case, "cuda:1")
    found = as_tuple(case.operator(*arguments))
    assert torch.cuda.current_device() == 0
    for actual, reference in zip(found, as_tuple(case.operator.reference(*arguments)), strict=False):
        assert actual.device == torch.device("cuda:1")
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
@pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
def test_more_than_two_to_the_31_elements(offset):
    count = (1 << 31) + 1000
    if torch.cuda.get_device_properties(0).total_memory < 8 * count:
        pytest.skip("needs 18 GB of GPU memory")
    x = torch.zeros(count + offset, dtype=torch.float16, device="cuda")[offset:]
    places = [0, 1, (1 << 31) - 1, 1 << 31, count - 2, count - 1]
    x[places] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float16, device="cuda")
    total = add2(x, x)
    assert total[places].tolist() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert total.count_nonzero() == len(places)
    del total
    y = sigmoid(x)
    torch.testing.assert_close(y[places], torch.sigmoid(x[places]))
    assert (y == 0.5).sum() == count - len(places)
    x = sigmoid_backward(x, y)
    expected = y[places].float()
    torch.testing.assert_close(
        x[places].float(), torch.arange(1.0, 7.0, device="cuda") * expected * (1 - expected), rtol=1e-3, atol=0
    )
    assert x.count_nonzero() == len(places)


def test_an_lltm_trains_on_the_gpu():
    torch.manual_seed(0)
    model = LLTM(4, 16).cuda()
    x, target = torch.randn(6, 32, 4, device="cuda"), torch.randn(32, 16, device="cuda").tanh()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.mse_loss(model(x)[0][-1], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow("compiles with Inductor")
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
