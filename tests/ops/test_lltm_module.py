"""The module LLTM is a stack of reference loops, with the shapes, the options and the refusals of torch.nn.LSTM."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from opsmith.ops.lltm import LLTM, LLTMCell, lltm, lltm_cell

pytestmark = pytest.mark.compile

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
devices = pytest.mark.parametrize("device", DEVICES)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]


def make(options: dict[str, Any], device: str = "cpu") -> LLTM:
    torch.manual_seed(0)
    return LLTM(4, 6, dtype=torch.float64, device=device, **options)


def states(module: LLTM, *batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (module.num_layers * (2 if module.bidirectional else 1), *batch, module.hidden_size)
    first, second = torch.randn(2, *shape, dtype=torch.float64, generator=generator).to(
        next(module.parameters()).device
    )
    return first, second


def stack(module: LLTM, steps: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """What the module returns for steps [T, B, I], by loops over the reference of a cell."""
    named = dict(module.named_parameters())
    hiddens, cells = [], []
    for layer in range(module.num_layers):
        outputs = []
        for suffix in ("", "_reverse") if module.bidirectional else ("",):
            weight = named[f"weight_l{layer}{suffix}"]
            bias = named.get(f"bias_l{layer}{suffix}", weight.new_zeros(len(weight)))
            hidden, cell = (each[len(hiddens)] for each in state)
            found = []
            for step in reversed(steps) if suffix else steps:
                hidden, cell, _ = lltm_cell.reference(step, hidden, cell, weight, bias)
                found.append(hidden)
            outputs.append(torch.stack(found[::-1] if suffix else found))
            hiddens.append(hidden)
            cells.append(cell)
        steps = torch.cat(outputs, dim=-1)
    return steps, (torch.stack(hiddens), torch.stack(cells))


@devices
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_agrees_with_a_stack_of_loops(options: dict[str, Any], device: str) -> None:
    module = make(options, device)
    x = torch.randn(5, 3, 4, dtype=torch.float64, device=device)
    state = states(module, 3)
    expected, last = stack(module, x, state)
    if module.batch_first:
        found = module(x.transpose(0, 1), state)
        expected = expected.transpose(0, 1)
    else:
        found = module(x, state)
    torch.testing.assert_close(found, (expected, last))
    parameters = list(module.parameters())
    seeds = [torch.randn_like(expected), *map(torch.randn_like, last)]
    torch.testing.assert_close(
        torch.autograd.grad([found[0], *found[1]], parameters, seeds),
        torch.autograd.grad([expected, *last], parameters, seeds),
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_takes_and_gives_the_shapes_of_lstm(options: dict[str, Any]) -> None:
    ours, theirs = LLTM(4, 6, **options), nn.LSTM(4, 6, **options)
    for shape, batch in (((5, 3, 4), (5 if options.get("batch_first") else 3,)), ((5, 4), ())):
        state = tuple(each.float() for each in states(ours, *batch))
        for given in ((), (state,)):
            output, last = ours(torch.randn(shape), *given)
            wanted, wanted_last = theirs(torch.randn(shape), *given)
            assert output.shape == wanted.shape
            assert [each.shape for each in last] == [each.shape for each in wanted_last]


def test_without_a_state_it_is_zero_and_without_a_batch_there_is_one_sequence() -> None:
    module = make({"bidirectional": True})
    x = torch.randn(5, 1, 4, dtype=torch.float64)
    zeros = torch.zeros(2, 1, 6, dtype=torch.float64)
    expected, (hidden, cell) = module(x, (zeros, zeros))
    torch.testing.assert_close(module(x), (expected, (hidden, cell)))
    torch.testing.assert_close(module(x[:, 0]), (expected[:, 0], (hidden[:, 0], cell[:, 0])))


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("batch", [0, 2])
def test_takes_no_steps_and_an_empty_batch(steps: int, batch: int) -> None:
    module = make({"num_layers": 2, "bidirectional": True})
    state = states(module, batch)
    output, last = module(torch.randn(steps, batch, 4, dtype=torch.float64), state)
    assert output.shape == (steps, batch, 12)
    if steps == 0:
        torch.testing.assert_close(last, state)


def test_gradients_by_finite_differences() -> None:
    module = make({"num_layers": 2, "bidirectional": True})
    x, state = torch.randn(3, 2, 4, dtype=torch.float64), states(module, 2)

    def run(x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        output, last = module(x, (hidden, cell))
        return output, *last

    assert torch.autograd.gradcheck(run, [each.clone().requires_grad_() for each in (x, *state)])


def test_dropout_acts_between_layers_and_in_training_alone() -> None:
    module, x = make({"num_layers": 2, "dropout": 1.0}), torch.randn(5, 3, 4, dtype=torch.float64)
    plain = make({"num_layers": 2})
    assert not plain.dropout
    torch.testing.assert_close(module.eval()(x), plain(x))
    # What is dropped altogether is the second layer's input: only its bias is left.
    weight, bias = module.weight_l1, module.bias_l1
    zeros = torch.zeros(3, 6, dtype=torch.float64)
    expected, last = lltm(torch.zeros(5, 3, 6, dtype=torch.float64), (zeros, zeros), weight, bias)
    output, (hidden, cell) = module.train()(x)
    torch.testing.assert_close((output, (hidden[1], cell[1])), (expected, last))
    torch.testing.assert_close(hidden[0], plain(x)[1][0][0])


@devices
@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_packed_sequences_are_run_each_to_its_own_end(
    options: dict[str, Any], enforce_sorted: bool, device: str
) -> None:
    module = make(options, device)
    lengths = [6, 4, 4, 1] if enforce_sorted else [4, 1, 6, 4]
    sequences = [torch.randn(length, 4, dtype=torch.float64, device=device) for length in lengths]
    state = states(module, 4)
    packed, (hidden, cell) = module(pack_sequence(sequences, enforce_sorted=enforce_sorted), state)
    padded, found_lengths = pad_packed_sequence(packed)
    assert found_lengths.tolist() == lengths
    for index, sequence in enumerate(sequences):
        output, last = module(sequence, (state[0][:, index], state[1][:, index]))
        torch.testing.assert_close(padded[: len(sequence), index], output)
        torch.testing.assert_close((hidden[:, index], cell[:, index]), last)
        assert not padded[len(sequence) :, index].any()


def test_a_packed_batch_has_the_gradients_of_its_sequences() -> None:
    module = make({"bidirectional": True})
    x = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    packed, _ = module(pack_padded_sequence(x, [5, 3, 2]))
    (found,) = torch.autograd.grad(packed.data.sum(), x)
    parts = [module(x[:length, index])[0].sum() for index, length in enumerate((5, 3, 2))]
    (wanted,) = torch.autograd.grad(sum(parts), x)
    torch.testing.assert_close(found, wanted)


def test_the_state_dict_has_names_like_lstm_s() -> None:
    module = LLTM(4, 6, num_layers=2, bidirectional=True)
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    assert shapes == {
        f"{kind}_l{layer}{suffix}": (18, (6 + (12 if layer else 4))) if kind == "weight" else (18,)
        for layer in range(2)
        for suffix in ("", "_reverse")
        for kind in ("weight", "bias")
    }
    other = LLTM(4, 6, num_layers=2, bidirectional=True)
    other.load_state_dict(module.state_dict())
    x = torch.randn(5, 3, 4)
    torch.testing.assert_close(other(x), module(x))
    assert str(LLTM(4, 6)) == "LLTM(4, 6)"
    assert str(module) == "LLTM(4, 6, num_layers=2, bidirectional=True)"


@devices
def test_a_cell_is_one_step(device: str) -> None:
    torch.manual_seed(0)
    sequence, cell = LLTM(4, 6, batch_first=True, device=device), LLTMCell(4, 6, device=device)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in sequence.state_dict().items()})
    x = torch.randn(3, 5, 4, device=device)
    outputs, (hidden, last) = sequence(x)
    state = None
    for index in range(5):
        state = cell(x[:, index], state)
        torch.testing.assert_close(outputs[:, index], state[0])
    torch.testing.assert_close((hidden[0], last[0]), state)
    single = cell(x[0, 0])
    torch.testing.assert_close(single, tuple(each[0] for each in cell(x[:1, 0])))
    torch.testing.assert_close(cell(x[0, 1], single)[0], outputs[0, 1])
    assert LLTMCell(4, 6, bias=False).bias is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LLTM(0, 3), "must be positive, found 0 and 3"),
        (lambda: LLTM(4, 6, num_layers=0), "num_layers must be positive, found 0"),
        (lambda: LLTM(4, 6, dropout=1.5), "from 0 to 1, found 1.5"),
        (lambda: LLTM(4, 6, proj_size=2), "no projections: proj_size must be 0, found 2"),
        (lambda: LLTM(4, 6)(torch.ones(4)), "2 or 3 dimensions, found 1"),
        (lambda: LLTM(4, 6)(torch.ones(5, 3, 7)), "7 features, and input_size is 4"),
        (lambda: LLTM(4, 6)(torch.ones(5, 3, 4), (torch.ones(1, 2, 6), torch.ones(1, 3, 6))), r"h0 is \[1, 2, 6\]"),
        (lambda: LLTM(4, 6)(torch.ones(5, 3, 4), (torch.ones(1, 3, 6), torch.ones(3, 6))), r"c0 is \[3, 6\]"),
        (lambda: LLTMCell(4, 6)(torch.ones(2, 3, 4)), "1 or 2 dimensions, found 3"),
    ],
)
def test_refusals_say_what_was_found(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_dropout_with_one_layer_warns() -> None:
    with pytest.warns(UserWarning, match="one layer only"):
        LLTM(4, 6, dropout=0.5)
