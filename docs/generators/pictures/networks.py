"""The pictures of lltm, lltm_sequence and mlp."""

from __future__ import annotations

import torch
from torch import Tensor

from generators.pictures.drawing import Drawing, Point
from opsmith.ops.lltm.cell import lltm_cell
from opsmith.ops.lltm.sequence import lltm_sequence
from opsmith.ops.mlp.operator import mlp

__all__ = ["draw_lltm", "draw_lltm_sequence", "draw_mlp"]


def draw_lltm() -> Drawing:
    """One step as a graph, with the numbers of one unit at its edges."""
    input, hidden, cell = (torch.tensor([[v]], dtype=torch.float64) for v in (1.0, 0.4, 0.5))  # noqa: A001 -- as the operator does
    weight = torch.tensor([[0.5, 0.8], [-0.5, 1.0], [0.5, 0.6]], dtype=torch.float64)
    bias = torch.tensor([0.2, 0.1, 0.0], dtype=torch.float64)
    new_hidden, new_cell, gates = lltm_cell.reference(input, hidden, cell, weight, bias)
    i, o, c = gates[0]
    drawing = Drawing(
        "A step: one product gives the gates i and o and a candidate c; i lets c into the cell, o lets the cell out",
        330,
        (90, 24, 396, 262),
    )
    # The product of a step, and its three parts.
    drawing.box((112, 54), (68, 98), "node", corner_radius=6)
    drawing.curve([(84, 28), (430, 28)], "a")
    drawing.curve([(146, 152), (146, 250)], "line")
    arrows: tuple[tuple[Point, Point, str], ...] = (
        ((86, 94), (112, 94), "line"),
        ((96, 124), (112, 124), "line"),
        ((180, 70), (236, 70), "line"),
        ((180, 130), (236, 130), "line"),
        ((146, 250), (236, 250), "line"),
        # The cell goes along the top and takes what the gate lets in.
        ((304, 70), (343, 94), "line"),
        ((304, 130), (343, 108), "line"),
        ((377, 100), (413, 100), "line"),
        ((430, 28), (430, 85), "a"),
        ((447, 100), (480, 100), "a"),
        # What the other gate lets out.
        ((430, 115), (430, 160), "a"),
        ((430, 190), (430, 235), "line"),
        ((304, 250), (413, 250), "line"),
        ((447, 250), (480, 250), "b"),
    )
    for start, end, kind in arrows:
        drawing.arrow(start, end, kind)
    nodes: tuple[tuple[Point, str, float], ...] = (
        ((270, 70), "sigmoid", 68),
        ((270, 130), "elu", 68),
        ((270, 250), "sigmoid", 68),
        ((360, 100), "×", 34),
        ((430, 100), "+", 34),
        ((430, 175), "tanh", 56),
        ((430, 250), "×", 34),
    )
    for at, text, width in nodes:
        drawing.node(at, text, width)
    labels: tuple[tuple[Point, str, str], ...] = (
        ((4, 33), f"cell {_show(cell)}", "start a-text strong"),
        ((4, 99), f"input {_show(input)}", "start"),
        ((4, 129), f"hidden {_show(hidden)}", "start"),
        ((146, 98), "· weight", "middle"),
        ((146, 120), "+ bias", "middle"),
        ((206, 62), f"i {_show(i)}", "small muted middle"),
        ((206, 122), f"c {_show(c)}", "small muted middle"),
        ((206, 242), f"o {_show(o)}", "small muted middle"),
        ((332, 68), _show(i.sigmoid()), "small muted middle"),
        ((332, 142), _show(torch.nn.functional.elu(c)), "small muted middle"),
        ((358, 242), _show(o.sigmoid()), "small muted middle"),
        ((440, 218), _show(new_cell.tanh()), "small muted start"),
        ((484, 96), "new cell", "start a-text strong"),
        ((484, 115), _show(new_cell), "start a-text"),
        ((484, 246), "hidden", "start b-text strong"),
        ((484, 265), _show(new_hidden), "start b-text"),
        (
            (280, 316),
            "the cell is never multiplied on its way along the top: there is no forget gate",
            "small muted middle",
        ),
    )
    for at, text, kind in labels:
        drawing.label(at, text, kind)
    return drawing


def draw_lltm_sequence() -> Drawing:
    """Steps side by side, with the states of six units below them."""
    steps, units = 7, 6
    random = torch.Generator().manual_seed(4)
    input = torch.zeros(steps, 1, 1, dtype=torch.float64)  # noqa: A001 -- as the operator does
    input[1], input[4] = 2.0, -2.0
    weight = torch.randn(3 * units, units + 1, generator=random, dtype=torch.float64)
    zero, bias = torch.zeros(1, units, dtype=torch.float64), torch.zeros(3 * units, dtype=torch.float64)
    hiddens = lltm_sequence.reference(input, zero, zero, weight, bias)[0][:, 0]
    drawing = Drawing(
        "Seven steps in one call: each takes its input and the state of the one before, and leaves its hidden state",
        330,
        (70, 60, 420, 240),
    )
    drawing.box((72, 50), (424, 86), "a-fill", 0.12, corner_radius=10)
    drawing.label((284, 24), "one call, and on a GPU one launch for all steps", "a-text strong middle")
    for step in range(steps):
        x = 106 + 59 * step
        drawing.label((x, 44), f"{input[step].item():g}".replace("-", "−"), "small middle")
        drawing.arrow((x, 49), (x, 78))
        drawing.node((x, 93), "cell", 40)
        drawing.arrow((x - 39 if step else 50, 93), (x - 20, 93), "a")
        drawing.arrow((x, 108), (x, 158), "b")
        for unit, value in enumerate(hiddens[step].tolist()):
            corner = (x - 14, 160 + 24 * unit)
            drawing.box(corner, (28, 24), "a-fill" if value >= 0 else "b-fill", min(abs(value), 1))
            drawing.box(corner, (28, 24), "faint")
    drawing.arrow((480, 93), (512, 93), "a")
    drawing.label((10, 44), "input", "small muted start")
    drawing.label((10, 88), "state", "small a-text start")
    drawing.label((514, 82), "last", "small a-text start")
    drawing.label((10, 236), "hiddens", "small muted start")
    drawing.label(
        (284, 324), "blue above 0, orange below: what step 2 has seen stays in the state", "small muted middle"
    )
    return drawing


def draw_mlp() -> Drawing:
    """Two layers with their weights as lines; those of the units that ReLU switches off are gray."""
    random = torch.Generator().manual_seed(2)
    shapes = {"input": (1, 4), "weight1": (6, 4), "bias1": (6,), "weight2": (2, 6), "bias2": (2,)}
    arguments = {name: torch.randn(shape, generator=random, dtype=torch.float64) for name, shape in shapes.items()}
    output, hidden = mlp.reference(**arguments)
    columns = [_column(60, 4), _column(280, 6), _column(500, 2)]
    drawing = Drawing(
        "Four inputs, six hidden units and two outputs; a unit at 0 adds nothing to the outputs and takes no gradient",
        320,
        (36, 34, 488, 250),
    )
    active = [value > 0 for value in hidden[0].tolist()]
    for layer, weight in enumerate((arguments["weight1"], arguments["weight2"])):
        for target, row in enumerate(weight.tolist()):
            for source, value in enumerate(row):
                off = not (active[source] if layer else active[target])
                kind = "faint" if off else ("a thin" if value > 0 else "b thin")
                drawing.line(columns[layer][source], columns[layer + 1][target], kind)
    values = (arguments["input"], hidden, output)
    for place, numbers in zip(columns, values, strict=True):
        for at, value in zip(place, numbers[0].tolist(), strict=True):
            drawing.box((at[0] - 24, at[1] - 14), (48, 28), "node", corner_radius=14)
            drawing.label((at[0], at[1] + 5), f"{value:.1f}".replace("-", "−") if value else "0", "small middle")
    for x, name in ((60, "input"), (280, "hidden"), (500, "output")):
        drawing.label((x, 22), name, "strong middle")
    drawing.label((168, 22), "weight1, bias1, ReLU", "small muted middle")
    drawing.label((390, 22), "weight2, bias2", "small muted middle")
    drawing.label(
        (280, 312), "blue weights are above 0, orange below; gray ones lead to a unit at 0", "small muted middle"
    )
    return drawing


def _column(x: float, count: int) -> list[Point]:
    return [(x, 160 + 44 * (index - (count - 1) / 2)) for index in range(count)]


def _show(value: Tensor) -> str:
    return f"{value.item():.2f}".replace("-", "−")
