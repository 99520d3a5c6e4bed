"""The pictures of add2, sigmoid, sigmoid_focal_loss and bias_act."""

from __future__ import annotations

import torch

from generators.pictures.drawing import Drawing, Plot
from opsmith.ops.add2 import add2
from opsmith.ops.bias_act.activations import activation_funcs
from opsmith.ops.bias_act.operator import bias_activation
from opsmith.ops.sigmoid import sigmoid, sigmoid_backward
from opsmith.ops.sigmoid_focal_loss.operator import focal_loss

__all__ = ["draw_add2", "draw_bias_act", "draw_focal_loss", "draw_sigmoid"]


def draw_add2() -> Drawing:
    """Three rows of numbers, and what moves through memory for them."""
    a = torch.tensor([1.0, -2.0, 0.5, 3.0, 4.0, 1.5, -1.0, 2.0])
    b = torch.tensor([2.0, 5.0, 0.5, -1.0, 1.0, 2.5, 4.0, -3.0])
    rows = {"a": a, "b": b, "y": add2.reference(a, b)}
    drawing = Drawing(
        "y is the sum of a and b, element by element; a thread of a GPU takes four", 222, (64, 24, 404, 172)
    )
    drawing.label((166, 20), "one thread: 16 bytes", "small a-text middle")
    drawing.label((366, 20), "the next one", "small muted middle")
    for index, (name, values) in enumerate(rows.items()):
        top = 30 + 62 * index
        kind = "b" if name == "y" else "a"
        drawing.label((36, top + 25), name, "strong middle")
        for column, value in enumerate(values.tolist()):
            corner = (66 + 50 * column, top)
            drawing.box(corner, (50, 38), f"{kind}-fill", 0.25 if column < 4 else 0.08)
            drawing.box(corner, (50, 38), "line")
            drawing.label((corner[0] + 25, top + 25), f"{value:g}".replace("-", "−"))
            if index < 2:
                drawing.label((corner[0] + 25, top + 55), "+="[index], "small muted middle")
        drawing.label((478, top + 25), ("read", "read", "write")[index], f"small {kind}-text start")
    drawing.label((266, 214), "float32: 12 bytes of memory for each sum, and one addition", "small muted middle")
    return drawing


def draw_sigmoid() -> Drawing:
    """The curve, and its slope by the result alone."""
    x = torch.linspace(-6, 6, 121, dtype=torch.float64)
    y = sigmoid.reference(x)
    slope = sigmoid_backward.reference(torch.ones_like(y), y)
    drawing = Drawing(
        "sigmoid rises from 0 to 1; its slope, y (1 - y), is largest at 0 and follows from y alone",
        300,
        (40, 10, 400, 240),
    )
    plot = Plot(drawing, (44, 16), (396, 232), (-6, 6), (0, 1))
    plot.axes((-6, -4, -2, 0, 2, 4, 6), (0, 0.25, 0.5, 0.75, 1))
    plot.curve(x.tolist(), y.tolist(), "a")
    plot.curve(x.tolist(), slope.tolist(), "b")
    at = 80  # x = 2
    one, value, steep = x[at].item(), y[at].item(), slope[at].item()
    drawing.line(plot.at(one, 0), plot.at(one, value), "line dashed")
    drawing.dot(plot.at(one, value), "a-fill", 5)
    drawing.dot(plot.at(one, steep), "b-fill", 5)
    drawing.label((450, plot.at(6, 1)[1] + 6), "y", "strong a-text start")
    drawing.label((450, plot.at(6, 0)[1] + 4), "y (1 − y)", "strong b-text start")
    drawing.label((plot.at(one, 0)[0] + 10, plot.at(0, value)[1] + 24), f"{value:.3f}", "small a-text start")
    drawing.label(
        (plot.at(one, 0)[0] + 10, plot.at(0, steep)[1] - 10),
        f"{value:.3f} × {1 - value:.3f} = {steep:.3f}",
        "small b-text start",
    )
    drawing.label((242, 294), "x", "muted middle")
    return drawing


def draw_focal_loss() -> Drawing:
    """The loss over the probability of the right class, for several gammas."""
    p = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    drawing = Drawing(
        "The loss over the probability of the right answer: the larger gamma is, the less confident predictions count",
        318,
        (50, 10, 410, 250),
    )
    plot = Plot(drawing, (54, 16), (396, 240), (0, 1), (0, 4))
    corner, end = plot.at(0.6, 4), plot.at(1, 0)
    drawing.box(corner, (end[0] - corner[0], end[1] - corner[1]), "c-fill", 0.12)
    drawing.label(((corner[0] + end[0]) / 2, corner[1] + 100), "right and confident", "small c-text middle")
    plot.axes((0, 0.2, 0.4, 0.6, 0.8, 1), (0, 1, 2, 3, 4))
    for gamma, kind in ((0.0, "b"), (0.5, "line"), (1.0, "line"), (2.0, "a"), (5.0, "line")):
        loss = focal_loss.reference(torch.logit(p), torch.ones_like(p), -1.0, gamma)
        plot.curve(p.tolist(), loss.tolist(), kind)
    names = ("gamma = 0: cross-entropy", "0.5, 1", "2: the default", "5")
    for line, (name, kind) in enumerate(zip(names, ("b-text", "muted", "a-text", "muted"), strict=True)):
        drawing.label((plot.at(0.2, 0)[0], 38 + 20 * line), name, f"small {kind} start")
    drawing.label((252, 310), "p_t, the probability of the right answer", "muted middle")
    sure, right = torch.logit(torch.tensor(0.9, dtype=torch.float64)), torch.tensor(1.0, dtype=torch.float64)
    drawing.label((458, plot.at(1, 0)[1] - 40), "at p_t = 0.9:", "small muted start")
    for line, (gamma, kind) in enumerate(((0.0, "b"), (2.0, "a"))):
        loss = focal_loss.reference(sure, right, -1.0, gamma).item()
        drawing.label((458, plot.at(1, 0)[1] - 22 + 18 * line), f"{loss:.4f}", f"small {kind}-text start")
    return drawing


def draw_bias_act() -> Drawing:
    """Each activation with its default gain, its slope, and the clamp on one of them."""
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)[None, None]
    drawing = Drawing(
        "The nine activations of bias_act and their slopes, each with its default gain; swish has a clamp of 2",
        506,
        (12, 8, 356, 284),
    )
    for index, (name, defaults) in enumerate(activation_funcs.items()):
        left, top = 12 + 184 * (index % 3), 12 + 160 * (index // 3)
        plot = Plot(drawing, (left, top), (168, 118), (-3, 3), (-2, 3))
        drawing.box((left, top), (168, 118), "faint")
        drawing.line(plot.at(-3, 0), plot.at(3, 0), "faint")
        drawing.line(plot.at(0, -2), plot.at(0, 3), "faint")
        clamp = 2.0 if name == "swish" else None
        given = x.clone().requires_grad_()
        y = bias_activation.reference(given, None, name, defaults.def_alpha or 0.0, float(defaults.def_gain), clamp)
        (slope,) = torch.autograd.grad(y.sum(), given)
        plot.curve(x.flatten().tolist(), slope.flatten().tolist(), "b thin")
        plot.curve(x.flatten().tolist(), y.flatten().tolist(), "a")
        gain = "" if defaults.def_gain == 1 else " × √2"
        clamped = ", clamp 2" if clamp else ""
        drawing.label((left + 84, top + 138), f"{name}{gain}{clamped}", "small middle")
    drawing.label((200, 499), "y = gain · act(x + b), clamped", "a-text strong middle")
    drawing.label((424, 499), "its slope", "b-text strong middle")
    return drawing
