"""The pictures of upfirdn2d and filtered_lrelu."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from generators.pictures.drawing import Drawing, Plot
from opsmith.ops.filtered_lrelu import filtered_lrelu
from opsmith.ops.upfirdn2d import setup_filter, upfirdn2d, upsample2d

__all__ = ["draw_filtered_lrelu", "draw_upfirdn2d", "spectra"]

_PERIOD, _WAVES = 32, 10  # samples of a signal, and how often it repeats in them


def draw_upfirdn2d() -> Drawing:
    """A small image, the same between zeros with the taps of one output, and the result."""
    y, x = torch.meshgrid(torch.arange(5, dtype=torch.float64), torch.arange(5, dtype=torch.float64), indexing="ij")
    image = (1 - (torch.hypot(x - 2, y - 2) - 1.5).abs()).clamp(min=0.05)[None, None]
    taps = setup_filter([1, 3, 3, 1])
    stuffed = upfirdn2d(image, None, up=2, impl="ref")
    result = upsample2d(image, taps, impl="ref")
    drawing = Drawing(
        "An image, the same with zeros between its pixels, and filtered: of the 16 taps of an output 4 meet a pixel",
        300,
        (384, 34, 170, 170),
    )
    for left, values, name in ((6, image, "x"), (195, stuffed, "up = 2: zeros"), (384, result, "filtered")):
        drawing.label((left + 85, 24), name, "strong middle")
        drawing.pixels((left, 34), values[0, 0].tolist(), 170 / values.shape[3])
    drawing.arrow((178, 119), (193, 119))
    drawing.arrow((367, 119), (382, 119))
    # upsample2d pads by two before: the taps of output (i, j) begin two samples before it.
    row, column, size = 4, 5, 17.0
    drawing.box((195 + (column - 2) * size, 34 + (row - 2) * size), (4 * size, 4 * size), "b")
    drawing.box((384 + column * size, 34 + row * size), (size, size), "b")
    used = [(i, j) for i in range(4) for j in range(4) if (row - 2 + i) % 2 == 0 and (column - 2 + j) % 2 == 0]
    for i, j in used:
        drawing.dot((195 + (column - 2 + j + 0.5) * size, 34 + (row - 2 + i + 0.5) * size), "b-fill", 4)
    drawing.label(
        (280, 236), f"the filter of [1, 3, 3, 1] has 16 taps; {len(used)} of them meet a pixel here,", "small middle"
    )
    drawing.label((280, 256), "the others a zero, which is neither stored nor multiplied", "small middle")
    factors = [4 * taps[3 - i, 3 - j].item() for i, j in used]  # a convolution: the filter is reversed
    pixels = [stuffed[0, 0, row - 2 + i, column - 2 + j].item() for i, j in used]
    terms = " + ".join(f"{factor:.2f} · {pixel:.2f}" for factor, pixel in zip(factors, pixels, strict=True))
    drawing.label((280, 286), f"{terms} = {result[0, 0, row, column].item():.2f}", "small b-text middle")
    return drawing


def spectra() -> tuple[Tensor, Tensor, Tensor]:
    """Return a wave of one frequency, its leaky ReLU sample by sample, and its filtered_lrelu, each [samples]."""
    repeated = torch.arange(3 * _PERIOD, dtype=torch.float64)
    wave = torch.cos(2 * math.pi * _WAVES * repeated / _PERIOD + 0.4)
    image = wave.expand(1, 1, 3 * _PERIOD, -1).contiguous()
    taps = _low_pass(48)
    plain = filtered_lrelu(image, slope=0.0, gain=1.0, impl="ref")
    # The filters' delays, 2 (48 - 1) / 2 samples after upsampling, are taken back on the left.
    filtered = filtered_lrelu(
        image, taps, taps, up=2, down=2, padding=[47, 46, 47, 46], slope=0.0, gain=1.0, impl="ref"
    )
    middle = slice(_PERIOD, 2 * _PERIOD)
    return wave[middle], plain[0, 0, _PERIOD, middle], filtered[0, 0, 3 * _PERIOD // 2, middle]


def draw_filtered_lrelu() -> Drawing:
    """A wave, what ReLU makes of its samples, and what filtered_lrelu does, with their spectra."""
    drawing = Drawing(
        "A wave, its ReLU sample by sample, and its filtered_lrelu, with their spectra: without filters there are aliases",
        352,
        (194, 28, 352, 262),
    )
    names = ("x", "lrelu(x)", "filtered_lrelu(x)")
    harmonics = set(range(0, _PERIOD // 2 + 1, _WAVES))
    for index, (signal, name) in enumerate(zip(spectra(), names, strict=True)):
        left = 12 + 184 * index
        drawing.label((left + 83, 20), name, "strong middle")
        plot = Plot(drawing, (left, 30), (166, 116), (-0.5, _PERIOD - 0.5), (-1.2, 1.2))
        drawing.box((left, 30), (166, 116), "faint")
        drawing.line(plot.at(-0.5, 0), plot.at(_PERIOD - 0.5, 0), "faint")
        fine = torch.fft.irfft(torch.fft.rfft(signal), 8 * _PERIOD) * 8  # what the samples stand for
        drawing.curve(
            [plot.at(step / 8, value) for step, value in enumerate(fine.tolist()[: 8 * _PERIOD - 7])], "a thin"
        )
        for step, value in enumerate(signal.tolist()):
            drawing.dot(plot.at(step, value), "a-fill", 2.2)
        strength = torch.fft.rfft(signal).abs() / _PERIOD
        bars = Plot(drawing, (left, 172), (166, 116), (-0.7, _PERIOD / 2 + 0.7), (0, 0.55))
        drawing.line(bars.at(-0.7, 0), bars.at(_PERIOD / 2 + 0.7, 0), "line")
        for frequency, value in enumerate(strength.tolist()):
            if value > 0.004:
                corner, foot = bars.at(frequency - 0.4, value), bars.at(frequency + 0.4, 0)
                kind = "a-fill" if frequency in harmonics else "b-fill"
                drawing.box(corner, (foot[0] - corner[0], foot[1] - corner[1]), kind)
        drawing.label((left, 304), "0", "small muted start")
        drawing.label((left + 166, 304), "half the rate", "small muted end")
    drawing.label(
        (280, 326),
        "above: 32 samples and the curve through them; below: its frequencies (slope 0)",
        "small muted middle",
    )
    drawing.label(
        (280, 346), "orange: aliases of frequencies that the sampling rate cannot hold", "small b-text middle"
    )
    return drawing


def _low_pass(count: int) -> Tensor:
    """Return the taps of a windowed sinc that lets half of the frequencies pass, which is what fits before upsampling."""
    place = torch.arange(count, dtype=torch.float64) - (count - 1) / 2
    window = torch.cos(math.pi * place / count) ** 2
    return setup_filter(torch.sinc(place * 0.46) * window)
