"""The documentation's site: every page is in its navigation, and links to files outside docs/ lead to pages of it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation_once():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ *- (?:[^#:\n]+: )?([\w/-]+\.md)$", text.partition("\nnav:\n")[2], flags=re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_the_build_is_strict():
    """With --quiet MkDocs drops warnings before --strict counts them, and succeeds."""
    (command,) = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert command.split() == ["mkdocs", "build", "--strict"]


def test_nothing_is_fetched_from_elsewhere():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text
    assert "http" not in text
    files = [*(DOCS / "assets").iterdir(), *DOCS.rglob("*.svg")]
    # The namespace of SVG is a name: nothing reads that address.
    text = "".join(file.read_text(encoding="utf-8") for file in files).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in text


@pytest.fixture
def source_pages(monkeypatch):
    pytest.importorskip("mkdocs", reason="needs MkDocs: pip install opsmith[docs]")
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("source_pages")
    del sys.modules["source_pages"]


def shown(source_pages, page: str, text: str) -> str:
    return source_pages.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page)))


def test_a_link_to_a_source_leads_to_its_page(source_pages):
    text = "[a](../../src/opsmith/errors.py) [b](sigmoid.md#figures) [c](https://a.b/c.md) [d](#here)"
    made = "[a](../source/src/opsmith/errors.py.md) [b](sigmoid.md#figures) [c](https://a.b/c.md) [d](#here)"
    assert shown(source_pages, "operators/add2.md", text) == made


def test_a_link_that_leads_nowhere_and_one_in_code_stay(source_pages):
    text = "[a](../../src/none.py)\n\n```cpp\nf[i](../../src/opsmith/errors.py)\n```\n"
    assert shown(source_pages, "operators/add2.md", text) == text


def test_a_readme_among_the_sources_links_to_both(source_pages):
    text = "[a](CMakeLists.txt) [b](../../docs/guides/cpp.md)"
    made = "[a](CMakeLists.txt.md) [b](../../../guides/cpp.md)"
    assert shown(source_pages, "source/examples/cpp/README.md.md", text) == made
