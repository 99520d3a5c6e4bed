"""Holds lltm_sequence on a GPU to a loop in float64: all ways it has of going through the steps, all types, any layout."""

from __future__ import annotations

import pytest
import torch
from graphs import capture
from layouts import laid_out
from lltm_calls import loop, sequence_arguments
from torch import Tensor

from opsmith.ops.lltm import lltm_sequence

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

# Of the largest number, for outputs and gradients alike. Half types keep the hidden state in their own precision from
# step to step, as a loop would.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)

# Steps, batch, input and state. States up to 512 go through one launch, for which a block's units (32 or 64), the number
# of blocks and the sizes of the instantiations (128, 256, 512) are the edges. Batches are cut into slices of 4, 8, 16 or
# 32 rows. Larger states go through one launch of a grid in 16-bit types, where they are multiples of 16 up to 1024 and the
# batch has up to 16, 32 or 64 rows; everything else goes step by step.
SIZES = [
    *[(0, 3, 4, 5), (2, 0, 4, 5), (1, 1, 1, 1), (2, 3, 5, 8), (17, 5, 3, 31), (5, 9, 7, 33), (6, 16, 4, 64)],
    *[
        (5, 8, 4, 65),
        (17, 32, 6, 100),
        (4, 3, 5, 128),
        (3, 33, 2, 129),
        (17, 7, 9, 256),
        (3, 2, 5, 257),
        (4, 3, 3, 384),
    ],
    *[(17, 16, 8, 512), (9, 700, 6, 96), (3, 1000, 4, 512), (3, 4, 5, 513), (5, 40, 3, 600)],
    *[(1, 1, 4, 528), (4, 17, 3, 640), (5, 33, 3, 1024), (3, 64, 5, 1008), (3, 65, 4, 640), (2, 3, 4, 1040)],
]


def make(steps: int, batch: int, inputs: int, state: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return sequence_arguments(steps, batch, inputs, state, dtype, "cuda")


def fill_free_memory_with_nan() -> None:
    """Let the next tensors lie where NaN was: what is left unwritten, or read before it is written, shows."""
    blocks = [torch.full((1 << power,), torch.nan, device="cuda") for power in range(8, 25)]
    del blocks


def check(arguments: list[Tensor], outer: list[Tensor] | None = None) -> None:
    """Compare outputs and all gradients with the loop's in float64."""
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    wide = [argument.detach().double().requires_grad_() for argument in arguments]
    wanted = loop(*wide)
    if outer is None:
        outer = [torch.randn_like(output).to(arguments[0].dtype) for output in wanted]
    fill_free_memory_with_nan()
    found = lltm_sequence(*leaves)
    fill_free_memory_with_nan()
    grads = torch.autograd.grad(found, leaves, outer)
    wanted_grads = torch.autograd.grad(
        wanted, wide, [grad.double() for grad in outer], allow_unused=True, materialize_grads=True
    )
    for ours, theirs in zip((*found, *grads), (*wanted, *wanted_grads), strict=True):
        assert ours.dtype == arguments[0].dtype
        scale = max(1.0, float(theirs.detach().abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double() / scale, theirs / scale, rtol=0, atol=TOLERANCE[ours.dtype])


@DTYPES
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_a_loop(size: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    check(make(*size, dtype))


@DTYPES
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "offset"])
def test_takes_any_strides(layout: str, place: int, dtype: torch.dtype) -> None:
    arguments = make(4, 9, 24, 72, dtype)
    argument = arguments[place]
    if layout == "transposed":
        arguments[place] = argument.transpose(0, -1).contiguous().transpose(0, -1)
    else:
        arguments[place] = laid_out(argument, layout)
    check(arguments)


@DTYPES
@pytest.mark.parametrize("state", [72, 520, 528])
def test_takes_gradients_of_any_strides(state: int, dtype: torch.dtype) -> None:
    arguments = make(4, 9, 5, state, dtype)
    ones = torch.ones((), dtype=dtype, device="cuda")
    check(arguments, [ones.expand(4, 9, state), ones.expand(9, state)])
    crossed = torch.randn(state, 9, 4, dtype=dtype, device="cuda")
    check(arguments, [crossed.permute(2, 1, 0), crossed[:, :, 0].t()])


@DTYPES
@pytest.mark.parametrize(
    "size", [(17, 33, 5, 100), (5, 300, 5, 256), (9, 16, 5, 512), (5, 16, 5, 600), (9, 40, 5, 1024)], ids=str
)
def test_runs_are_equal_bit_for_bit(size: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    arguments = [argument.requires_grad_() for argument in make(*size, dtype)]

    def run() -> tuple[Tensor, ...]:
        found = lltm_sequence(*arguments)
        return (*found, *torch.autograd.grad(sum(output.sum() for output in found), arguments))

    assert all(torch.equal(first, second) for first, second in zip(run(), run(), strict=True))


@DTYPES
@pytest.mark.parametrize("state", [100, 600, 640])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf], ids=str)
def test_a_row_that_is_not_finite_leaves_the_others_alone(bad: float, state: int, dtype: torch.dtype) -> None:
    arguments = make(4, 9, 5, state, dtype)
    clean = lltm_sequence(*arguments)
    arguments[1][3, 7] = bad
    dirty = lltm_sequence(*arguments)
    others = [row for row in range(9) if row != 3]
    assert torch.equal(dirty[0][:, others], clean[0][:, others])
    assert torch.equal(dirty[1][others], clean[1][others])
    wanted = loop(*(argument.double() for argument in arguments))
    assert torch.equal(dirty[0].isnan(), wanted[0].isnan())
    assert torch.equal(dirty[1].isnan(), wanted[1].isnan())


@pytest.mark.parametrize("gate", [-1000.0, -88.0, 0.0, 88.0, 1000.0])
@pytest.mark.parametrize("state", [40, 520])
def test_any_finite_gate_has_a_finite_gradient(state: int, gate: float) -> None:
    arguments = make(3, 5, 4, state)
    arguments[3].zero_()
    arguments[4].fill_(gate)
    check(arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("state", [128, 640])
def test_capture_and_replay_with_gradients(state: int, dtype: torch.dtype) -> None:
    arguments = make(6, 12, 16, state, dtype)
    outer = [torch.randn(6, 12, state, device="cuda").to(dtype), torch.randn(12, state, device="cuda").to(dtype)]

    def run() -> tuple[Tensor, ...]:
        leaves = [argument.detach().requires_grad_() for argument in arguments]
        found = lltm_sequence(*leaves)
        return (*found, *torch.autograd.grad(found, leaves, outer))

    graph, captured = capture(run)
    for argument in arguments:
        argument.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    for ours, theirs in zip(captured, run(), strict=True):
        assert torch.equal(ours, theirs)


# One launch of clusters, one of a grid, and step by step.
@pytest.mark.parametrize("state", [100, 640, 600])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_what_the_input_and_the_hidden_state_add_to_a_gate_is_rounded_as_a_sum(state: int, dtype: torch.dtype) -> None:
    arguments = make(1, 9, 1, state, dtype)
    input, hidden, _, weight, bias = arguments  # noqa: A001
    input.fill_(256)
    hidden[:, 0] = -256
    weight[:, 0] = weight[:, state] = 300  # 76,800 is no number of float16, and bfloat16 has it to 256
    rest = hidden[:, 1:].double() @ weight[:, 1:state].double().t() + bias.double()
    gates = lltm_sequence.torch_op(*arguments)[2]
    # A float32 sum that comes by 76,800 is off by a few times 0.0078 there.
    torch.testing.assert_close(gates[0].double(), rest, rtol=2 * torch.finfo(dtype).eps, atol=0.2)


def test_products_in_float16_may_be_summed_in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", True)
    for state in (100, 640, 600):
        check(make(3, 9, 6, state, torch.float16))
