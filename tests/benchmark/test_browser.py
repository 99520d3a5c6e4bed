"""The page in a browser: its script runs, tiles become tabs, arrows go from mark to mark. Where there is a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from planted import large, small

from opsmith.report.bench.page import reports_as_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def dom_of(tmp_path: Path):
    """Return a function that opens a page, runs a script in it, and returns what the page is then."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is on PATH")

    def run(script: str = "") -> str:
        # What goes wrong in a script is not in the page; so it is written there.
        errors = "<script>addEventListener('error', e => document.body.dataset.error = e.message)</script>"
        text = reports_as_html([large(), small()]).replace("<main>", f"{errors}<main>")
        file = tmp_path / "page.html"
        file.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
        argv = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run(
            [*argv, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        assert 'data-error="' not in done.stdout.replace("document.body.dataset.error", "")
        return done.stdout

    return run


def hidden(dom: str) -> dict[str, bool]:
    panels = re.findall(r'<div class="panel[^"]*" id="([^"]+)"( hidden="")?', dom)
    return {name: bool(is_hidden) for name, is_hidden in panels}


def test_one_part_of_each_report_is_shown(dom_of):
    shown = hidden(dom_of())
    assert [name for name, is_hidden in shown.items() if not is_hidden] == ["op0-0", "op1-0"]


def test_a_tile_chooses_what_is_shown(dom_of):
    dom = dom_of("document.querySelectorAll('.tile')[3].click()")
    assert [name for name, is_hidden in hidden(dom).items() if not is_hidden] == ["op0-3", "op1-0"]
    assert dom.count('aria-selected="true"') == 2


def test_arrows_go_from_mark_to_mark(dom_of):
    keys = "for (let i = 0; i < 2; i++) plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    dom = dom_of(f"const plot = document.querySelector('figure svg'); {keys}")
    (tip,) = re.findall(r'<div id="tip"[^>]*class="shown"[^>]*>([^<]*)</div>', dom)
    # The second mark of the first series: a competitor at the second size.
    assert tip.startswith("eager, B 64, N 4096\n")
    assert "opsmith against it: 4.1" in tip


def test_a_click_on_a_name_hides_it(dom_of):
    button = "document.querySelector('.legend button[data-name=compiled]')"
    dom = dom_of(f"{button}.click()")
    off = re.findall(r'<g class="series k\d off" data-name="([^"]+)"', dom)
    assert len(off) > 3
    assert set(off) == {"compiled"}
    again = dom_of(f"{button}.click(); {button}.click()")
    assert not re.search(r'class="series k\d off"', again)
