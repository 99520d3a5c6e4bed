"""The pictures of the operators' pages: what they draw is what the operators return, and every page shows its own."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from opsmith.ops.roi_align.sized import Sampling, roi_align_sized

ROOT = Path(__file__).resolve().parent.parent
OPERATORS = ROOT / "docs" / "operators"
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("generators.pictures")
    for name in [name for name in sys.modules if name.partition(".")[0] == "generators"]:
        del sys.modules[name]


@pytest.fixture
def drawing(pictures):
    return sys.modules["generators.pictures.drawing"].Drawing("A title & more", 100, (10, 20, 30, 40))


def marks(svg: str, tag: str) -> list[dict[str, str]]:
    return [mark.attrib for mark in ElementTree.fromstring(svg).iter(f"{_SVG}{tag}")]


def test_every_operator_has_a_page_that_shows_its_picture(pictures):
    pages = {page.stem for page in OPERATORS.glob("*.md")} - {"index"}
    assert pages == set(pictures.PICTURES)
    index = (OPERATORS / "index.md").read_text(encoding="utf-8")
    for name, draw in pictures.PICTURES.items():
        page = (OPERATORS / f"{name}.md").read_text(encoding="utf-8")
        assert page.count(f"![{draw().title}](pictures/{name}.svg)") == 1
        assert f'src="pictures/small/{name}.svg"' in index


def test_every_page_has_its_sections_in_the_same_order():
    order = ["Semantics", "Limits", "How it works", "Figures"]
    for page in OPERATORS.glob("*.md"):
        headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert page.stem == "index" or [name for name in headings if name in order] == order, page.name


def test_pictures_are_the_same_each_time_and_stay_within_their_frames(pictures):
    for draw in pictures.PICTURES.values():
        svg = draw().svg()
        assert svg == draw().svg()
        width, height = (float(ElementTree.fromstring(svg).attrib[name]) for name in ("width", "height"))
        for tag, x, y in (("circle", "cx", "cy"), ("text", "x", "y"), ("rect", "x", "y"), ("line", "x2", "y2")):
            for mark in marks(svg, tag):
                assert 0 <= float(mark[x]) <= width
                assert 0 <= float(mark[y]) <= height


def test_a_drawing_has_a_title_and_its_small_part_no_labels(drawing):
    drawing.node((50, 50), "a<b")
    drawing.arrow((0, 0), (20, 0), "b thin")
    whole, small = ElementTree.fromstring(drawing.svg()), ElementTree.fromstring(drawing.small_svg())
    assert whole.attrib["aria-label"] == small.attrib["aria-label"] == "A title & more"
    assert small.attrib["viewBox"] == "-5 20 60 40"
    assert [text.text for text in whole.iter(f"{_SVG}text")] == ["a<b"]
    (inner,) = small.iterfind(f"{_SVG}svg")
    assert inner.attrib["viewBox"] == "10 20 30 40"
    shapes = [mark.tag for mark in whole if mark.tag not in (f"{_SVG}text", f"{_SVG}style")]
    assert [mark.tag for mark in inner] == shapes
    (head,) = marks(drawing.svg(), "polygon")
    assert head["class"] == "b-fill"
    assert head["points"].startswith("20,0 ")


def test_pixels_are_as_strong_as_their_values(drawing):
    drawing.pixels((0, 0), [[0.0, 0.25], [1.0, 2.0]], 10)
    filled = [mark for mark in marks(drawing.svg(), "rect") if mark["class"] == "a-fill"]
    assert [(mark["x"], mark["y"], mark.get("opacity")) for mark in filled] == [
        ("10", "0", "0.25"),
        ("0", "10", None),
        ("10", "10", None),
    ]


def test_a_plot_places_values_and_leaves_out_what_lies_beyond(drawing):
    plot = sys.modules["generators.pictures.drawing"].Plot(drawing, (10, 20), (100, 50), (-1, 1), (0, 2))
    assert plot.at(-1, 0) == (10, 70)
    assert plot.at(1, 2) == (110, 20)
    plot.axes((-1, 0.5), (2,))
    plot.curve([-1, 0, 1], [0, 3, 2])
    assert [text.text for text in ElementTree.fromstring(drawing.svg()).iter(f"{_SVG}text")] == ["−1", "0.5", "2"]
    assert [mark["points"] for mark in marks(drawing.svg(), "polyline")] == ["10,70 110,20"]


def test_numbers_have_one_decimal_and_no_sign_of_zero(drawing):
    drawing.dot((-0.04, 1.26), radius=2.0)
    (dot,) = marks(drawing.svg(), "circle")
    assert (dot["cx"], dot["cy"], dot["r"]) == ("0", "1.3", "2")


def test_the_points_of_roi_align_give_its_result(pictures):
    module = sys.modules["generators.pictures.boxes"]
    image = module.features()
    height, width = image.shape[2:]
    points = torch.tensor(module.sampling_points(), dtype=torch.float64)
    # grid_sample counts from -1 to 1 between the outer edges of the outer pixels.
    places = (2 * points + 1) / torch.tensor([width, height]) - 1
    samples = torch.nn.functional.grid_sample(image, places[None, None], align_corners=False)
    bins = samples.reshape(module.BINS, module.BINS, module.POINTS**2).mean(2)
    sampling = Sampling(1, height, width, module.BINS, module.BINS, 1.0, module.POINTS, True)
    expected = roi_align_sized.reference(image, torch.tensor([[0.0, *module.BOX]]), sampling)[0, 0]
    torch.testing.assert_close(bins, expected, rtol=0, atol=1e-5)  # the operator's points are in float32


def test_filters_take_away_the_alias_that_leaky_relu_leaves(pictures):
    module = sys.modules["generators.pictures.filters"]
    wave, plain, filtered = (torch.fft.rfft(signal).abs() / 32 for signal in module.spectra())
    assert wave.argmax() == 10
    alias = 32 - 2 * 10
    assert plain[alias] > 0.1
    assert filtered[alias] < 0.01
    torch.testing.assert_close(filtered[10], plain[10], rtol=0.02, atol=0)
