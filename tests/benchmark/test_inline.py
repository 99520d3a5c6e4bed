"""In a notebook a benchmark is its text and plots that are pictures, whose style does not meet the notebook's."""

from __future__ import annotations

import base64
import re

from planted import large, small

from opsmith.report.bench.grid import tables_of
from opsmith.report.bench.inline import reports_inline

_PICTURE = re.compile(r'<figcaption[^>]*>([^<]+)</figcaption><img src="data:image/svg\+xml;base64,([^"]+)"')


def test_each_element_type_and_phase_has_its_plots_beside_the_text():
    report = large()
    html = reports_inline([report])
    titles = [title for title, _ in _PICTURE.findall(html)]
    tables = [table.title for table in tables_of(report.timings)]
    assert titles == [f"{table}: {what}" for table in tables for what in ("time of a call", "times as fast")]
    assert f"<pre>{report}".splitlines()[0] in html


def test_a_plot_is_a_picture_with_its_own_style_and_legend():
    html = reports_inline([small()])
    time, ratio = (base64.b64decode(data).decode() for _, data in _PICTURE.findall(html))
    for picture in (time, ratio):
        assert 'xmlns="http://www.w3.org/2000/svg"' in picture
        assert "<style>" in picture
    assert re.findall(r'<text class="value" x="12" y="4">(\w+)</text>', time) == ["eager", "opsmith"]
    assert "<style>" not in html and "<script" not in html


def test_several_reports_stand_below_each_other():
    assert reports_inline([small(), small()]).count("<pre>") == 2
