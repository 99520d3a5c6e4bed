"""The pages in docs/ are true: every test they name exists, their links resolve, and their code runs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from forks import python_c
from guide_pages import has_files

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
_TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")

_CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)

# What these build and time takes longest.
_LONG = frozenset({"deform_conv2d.md", "filtered_lrelu.md"})
# A page of commands alone has no code to run, and what is generated shows signatures.
each_page_with_code = pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.nightly("builds and times an operator; its own tests run for each change"))
        if page.name in _LONG
        else page
        for page in PAGES
        if page.parent.name != "reference" and _CODE.search(page.read_text(encoding="utf-8")) and not has_files(page)
    ],
    ids=lambda page: page.name,
)


def test_every_test_that_is_named_exists():
    named = {name for page in PAGES for name in _TEST.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    for file, _, name in sorted(test.partition("::") for test in named):
        assert name.startswith("test_"), f"{file}::{name}"
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{file}::{name}"


def test_every_line_of_what_you_get_names_its_test():
    page = (ROOT / "docs" / "guides" / "what-you-get.md").read_text(encoding="utf-8")
    entries = [line for line in page.splitlines() if line.startswith("* ")]
    # A limit may be of what the lines before it say.
    unproven = [line for line in entries if not _TEST.search(line) and not line.startswith("* *Limit:*")]
    assert len(entries) > 40
    assert unproven == []


def test_every_failure_mode_names_a_test_of_its_number():
    page = (ROOT / "docs" / "guides" / "failure-modes.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    for number, row in enumerate(rows, start=1):
        assert row.startswith(f"| {number} | ")
        assert re.search(rf"`tests/failure_modes/test_\w+\.py::test_{number}_\w+`", row), row
    assert len(rows) == 27


def anchors(page: Path) -> set[str]:
    """Return what a page's headings can be linked by, as GitHub makes them, and its own anchors."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.replace("`", "")).lower().replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


def test_every_link_leads_to_a_file_and_a_heading():
    pages = [*PAGES, *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md"), ROOT / "benchmarks" / "README.md"]
    broken = []
    for page in pages:
        # Blocks of code are no links, nor is `kernel[grid](...)` in a line; of [`code`](link) the brackets are left.
        text = re.sub(r"```.*?```|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


@pytest.mark.slow("a process for each page, and what it builds, checks and times")
@pytest.mark.compile
@each_page_with_code
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path):
    blocks = _CODE.findall(page.read_text(encoding="utf-8"))
    env = {"OPSMITH_BRIDGE": "wait", **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = python_c("\n".join(blocks), env=env)
    assert done.returncode == 0, done.stderr
