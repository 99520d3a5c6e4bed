"""A benchmark as one page that needs nothing else: time against size, speed-ups, and the roofline, to be pointed at.

The plots are plotly's (https://plotly.com/python); its JavaScript goes into the page, so that the page can be sent to
somebody and opened without a network.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from opsmith.bench.render.text import report_lines
from opsmith.bench.render.units import duration
from opsmith.bench.result import BenchReport, Timing
from opsmith.errors import ToolchainError

__all__ = ["reports_as_html"]

_COLOURS = ("#3b6fd4", "#8a8f98", "#d9822b", "#2e9e6b", "#b5478f", "#c0392b")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; }} h2 {{ font-size: 1.15rem; margin-top: 2.5rem; }}
.about, .note {{ opacity: .75; margin-top: .25rem; }}
pre {{ overflow-x: auto; padding: 1rem; border-radius: .5rem; background: rgba(128, 128, 128, .12); font-size: 13px; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 1rem; }}
</style>
<script>{script}</script></head><body>
{body}
</body></html>
"""


def reports_as_html(reports: Sequence[BenchReport]) -> str:
    """Return the page of some reports; raises ToolchainError where plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ToolchainError("pages with plots need plotly: pip install 'opsmith[bench]'") from error
    body = "\n".join(_report(report, number) for number, report in enumerate(reports))
    title = html.escape(f"opsmith bench: {', '.join(report.operator for report in reports)}")
    return _PAGE.format(title=title, script=get_plotlyjs(), body=body)


def _report(report: BenchReport, number: int) -> str:
    machine = report.machine
    about = (
        f"{machine.name} · {machine.threads} CPU threads · torch {machine.torch} · Python {machine.python} · "
        f"{report.date[:16].replace('T', ' ')} UTC · seed {report.seed}"
    )
    parts = [f"<h1>{html.escape(report.operator)}</h1>", f'<p class="about">{html.escape(about)}</p>']
    parts += [f'<p class="note">! {html.escape(text)}</p>' for text in report.warnings]
    for dtype in dict.fromkeys(timing.dtype for timing in report.timings):
        for phase in ("forward", "backward", "both"):
            timings = [t for t in report.timings if t.dtype == dtype and t.phase == phase and t.time is not None]
            if timings:
                name = f"{dtype}, {'forward and backward' if phase == 'both' else phase}"
                parts.append(f"<h2>{html.escape(name)}</h2>")
                parts.append(_plots(report, timings, f"{number}-{dtype}-{phase}"))
    parts.append(f"<h2>Figures</h2><pre>{html.escape(chr(10).join(report_lines(report)))}</pre>")
    return "\n".join(parts)


def _plots(report: BenchReport, timings: list[Timing], key: str) -> str:
    figures = [_times(timings), _speed_ups(timings), _roofline(report, timings)]
    return f'<div class="plots">{"".join(_div(figure, f"{key}-{i}") for i, figure in enumerate(figures))}</div>'


def _div(figure: Any, key: str) -> str:
    text: str = figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=f"plot-{key}", config={"displaylogo": False}
    )
    return text


def _times(timings: list[Timing]) -> Any:
    """Time of a call against the bytes it must move; both axes in decades."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, colour in _coloured(timings):
        chosen = sorted((t for t in timings if t.competitor == name), key=lambda t: t.bytes_moved)
        intervals = [timing.time for timing in chosen if timing.time is not None]
        figure.add_scatter(
            x=[timing.bytes_moved for timing in chosen],
            y=[interval.middle for interval in intervals],
            error_y={
                "array": [interval.high - interval.middle for interval in intervals],
                "arrayminus": [interval.middle - interval.low for interval in intervals],
            },
            name=name,
            mode="lines+markers",
            line={"color": colour},
            text=[f"{timing.workload}: {duration(i.middle)}" for timing, i in zip(chosen, intervals, strict=True)],
            hoverinfo="text+name",
        )
    return _styled(figure, "time of a call", "bytes in and out", "seconds", log=True)


def _speed_ups(timings: list[Timing]) -> Any:
    """How many times as fast the operator is as each competitor."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, colour in _coloured(timings)[1:]:
        chosen = [t for t in timings if t.competitor == name and t.verdict is not None]
        ratios = [timing.verdict.ratio for timing in chosen if timing.verdict is not None]
        figure.add_bar(
            x=[timing.workload for timing in chosen],
            y=[ratio.middle for ratio in ratios],
            error_y={
                "array": [ratio.high - ratio.middle for ratio in ratios],
                "arrayminus": [ratio.middle - ratio.low for ratio in ratios],
            },
            name=f"than {name}",
            marker={"color": colour},
            text=[str(timing.verdict) for timing in chosen],
            hoverinfo="text+name",
            textposition="none",
        )
    figure.add_hline(y=1, line={"dash": "dot", "color": "#888"})
    return _styled(figure, "times as fast", "", "", log=False)


def _roofline(report: BenchReport, timings: list[Timing]) -> Any:
    """Operations a second against operations a byte; without operations, bytes a second against bytes."""
    import plotly.graph_objects as go

    copy = float(report.limits["copy_bytes_s"])
    figure = go.Figure()
    has_flops = any(timing.flops for timing in timings)
    for name, colour in _coloured(timings):
        chosen = [t for t in timings if t.competitor == name and t.time is not None and t.bytes_moved]
        figure.add_scatter(
            x=[t.flops / t.bytes_moved if has_flops else t.bytes_moved for t in chosen],
            y=[(t.flops if has_flops else t.bytes_moved) / t.time.middle for t in chosen if t.time is not None],
            name=name,
            mode="markers",
            marker={"color": colour, "size": 10},
            text=[f"{t.workload}: {t.share:.0%} of the limit ({t.bound})" for t in chosen],
            hoverinfo="text+name",
        )
    if not has_flops:
        figure.add_hline(y=copy, line={"dash": "dot", "color": "#888"}, annotation_text="copy bandwidth")
        return _styled(figure, "bandwidth", "bytes in and out", "bytes a second", log=True)
    rate = float(report.limits["matmul_flops_s"].get(timings[0].dtype, report.limits["matmul_flops_s"]["float32"]))
    edge = rate / copy
    figure.add_scatter(
        x=[edge / 1000, edge, edge * 100],
        y=[rate / 1000, rate, rate],
        name="limit, measured",
        mode="lines",
        line={"dash": "dot", "color": "#888"},
        hoverinfo="skip",
    )
    return _styled(figure, "roofline", "operations a byte", "operations a second", log=True)


def _coloured(timings: Iterable[Timing]) -> list[tuple[str, str]]:
    names = list(dict.fromkeys(timing.competitor for timing in timings))
    return [(name, _COLOURS[index % len(_COLOURS)]) for index, name in enumerate(names)]


def _styled(figure: Any, title: str, x: str, y: str, *, log: bool) -> Any:
    kind = "log" if log else None
    figure.update_layout(
        title=title,
        xaxis={"title": x, "type": kind if x else None, "exponentformat": "SI"},
        yaxis={"title": y, "type": kind, "exponentformat": "SI"},
        height=380,
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(128,128,128,.08)",
        font={"color": "#888"},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure
