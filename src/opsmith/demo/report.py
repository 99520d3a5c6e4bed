"""What the demo leaves behind: report.html, report.md with its pictures, and results.json."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from opsmith.demo.digits import Digits
from opsmith.demo.figures import build_figure, digit_figure, loss_figure, speed_figure, to_svg
from opsmith.demo.results import Results
from opsmith.demo.table import BAD, GOOD, Finding, Table

__all__ = ["write_report"]

_TITLE = "opsmith demo: LLTM"
_INTRODUCTION = (
    "One definition of a recurrent cell, built three ways, proved equal, timed, and trained on 1,797 handwritten "
    "digits."
)

# Where each picture goes: under the table of this title. Its name is the file's.
_PICTURES = {"Three builds": "builds", "Speed": "speed", "Training": "training"}
_CAPTIONS = {
    "builds": "Time of each build",
    "speed": "Microseconds of one step",
    "training": "Loss and accuracy",
    "digits": "Test digits with their predictions. A red frame is a mistake (prediction ≠ truth); below the first three "
    "rows are only mistakes.",
}

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #f5f7fa; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.1rem; margin: 0 0 .6rem; }
.lead, .foot { color: #52606d; margin: .35rem 0 1.6rem; }
section { background: #fff; border: 1px solid #e4e7eb; border-radius: 10px;
  padding: 1.1rem 1.3rem 1.2rem; margin: 0 0 1.1rem; }
ul.verdict { list-style: none; margin: 0; padding: 0; }
ul.verdict li { padding: .12rem 0; display: grid; grid-template-columns: 1.4rem 6.5rem 1fr; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th { text-align: left; color: #7b8794; font-weight: 500; border-bottom: 1px solid #cbd2d9; }
th, td { padding: .3rem .9rem .3rem 0; vertical-align: top; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
td { border-bottom: 1px solid #eef1f4; }
td.path { white-space: normal; overflow-wrap: anywhere; font-family: ui-monospace, monospace; font-size: .8rem; }
.r { text-align: right; }
.note { color: #616e7c; font-size: .86rem; margin: .7rem 0 0; }
figure { margin: 1rem 0 0; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: #616e7c; font-size: .86rem; margin-top: .4rem; }
.good { color: #2b8a3e; } .bad { color: #c92a2a; font-weight: 600; }
"""


def write_report(results: Results, digits: Digits, folder: Path) -> Path:
    """Write the report's files into a folder and return the path of report.html, which needs no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "builds": to_svg(build_figure(results.builds)),
        "speed": to_svg(speed_figure(results.timings)),
        "training": to_svg(loss_figure(results.runs)),
        "digits": to_svg(digit_figure(results.runs[0], digits)),
    }
    for name, svg in pictures.items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    tables = results.tables(digits)
    (folder / "results.json").write_text(results.to_json() + "\n", encoding="utf-8")
    (folder / "report.md").write_text(_markdown(results, tables), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_html(results, tables, pictures), encoding="utf-8")
    return page


def _pictures_of(title: str) -> tuple[str, ...]:
    name = _PICTURES.get(title)
    if name is None:
        return ()
    return (name, "digits") if name == "training" else (name,)


def _verdict(results: Results) -> str:
    if results.failures:
        return "Not as promised: " + "; ".join(results.failures) + "."
    return "Everything is as promised." + (" (A quick run: no accuracy was asked for.)" if results.quick else "")


def _foot(results: Results) -> str:
    return f"Made by `opsmith demo` in {results.seconds:.0f} s, {results.machine.date}. All figures: results.json."


def _markdown(results: Results, tables: tuple[Table, ...]) -> str:
    lines = [f"# {_TITLE}", "", _INTRODUCTION, "", f"**{_verdict(results)}**", ""]
    lines += [f"- {found.sign} **{found.topic}**: {found.text}" for found in results.summary]
    if results.gpu_missing:
        lines += ["", f"No GPU in this report: {results.gpu_missing}"]
    for table in tables:
        lines += ["", f"## {table.title}", "", _markdown_row(table.columns)]
        lines.append(_markdown_row(["---:" if side == "r" else "---" for side in table.align]))
        lines += [_markdown_row(row) for row in table.rows]
        lines += ["", table.note] if table.note else []
        for name in _pictures_of(table.title):
            lines += ["", f"![{_CAPTIONS[name]}]({name}.svg)"]
    return "\n".join([*lines, "", _foot(results), ""])


def _markdown_row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _html(results: Results, tables: tuple[Table, ...], pictures: Mapping[str, str]) -> str:
    is_good = not results.failures
    items = "".join(f"<li>{_summary_item(finding)}</li>" for finding in results.summary)
    verdict = (
        f'<h2 class="{"good" if is_good else "bad"}">{escape(_verdict(results))}</h2><ul class="verdict">{items}</ul>'
    )
    if results.gpu_missing:
        verdict += f'<p class="note">No GPU in this report: {escape(results.gpu_missing)}</p>'
    sections = [verdict, *(_html_section(table, pictures) for table in tables)]
    body = "\n".join(f"<section>{section}</section>" for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_TITLE}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{_TITLE}</h1>\n<p class="lead">{escape(_INTRODUCTION)}</p>\n{body}\n'
        f'<p class="foot">{escape(_foot(results).replace("`", ""))}</p>\n</main>\n</body>\n</html>\n'
    )


def _summary_item(finding: Finding) -> str:
    return f"<span>{_marked(finding.sign)}</span><b>{escape(finding.topic)}</b><span>{escape(finding.text)}</span>"


def _html_section(table: Table, pictures: Mapping[str, str]) -> str:
    head = "".join(
        f'<th class="{side}">{escape(name)}</th>' for name, side in zip(table.columns, table.align, strict=True)
    )
    rows = "".join(f"<tr>{_html_cells(row, table)}</tr>" for row in table.rows)
    parts = [f"<h2>{escape(table.title)}</h2>"]
    parts.append(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>')
    parts += [f'<p class="note">{escape(table.note)}</p>'] if table.note else []
    for name in _pictures_of(table.title):
        parts.append(f"<figure>{pictures[name]}<figcaption>{escape(_CAPTIONS[name])}</figcaption></figure>")
    return "\n".join(parts)


def _html_cells(row: tuple[str, ...], table: Table) -> str:
    cells = []
    for text, side, column in zip(row, table.align, table.columns, strict=True):
        kind = "path" if column == "library" else side
        cells.append(f'<td class="{kind}">{_marked(text)}</td>')
    return "".join(cells)


def _marked(text: str) -> str:
    """Escape a text and colour its marks."""
    safe = escape(text)
    return safe.replace(GOOD, f'<span class="good">{GOOD}</span>').replace(BAD, f'<span class="bad">{BAD}</span>')
