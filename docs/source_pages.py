"""A MkDocs hook: files outside docs/ that a page links to become pages of the site, so that it is complete on disk.

On GitHub such a link, `../../src/opsmith/ops/nms/nms.cu`, leads to the file. In the site it leads to `source/...`, a page
with the file's text; a folder's page lists its files, and Markdown is rendered, its own links included.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {
    ".cu": "cuda",
    ".cuh": "cuda",
    ".h": "cpp",
    ".cpp": "cpp",
    ".py": "python",
    ".toml": "toml",
    ".txt": "cmake",
}
_OUTSIDE = InclusionLevel.NOT_IN_NAV
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, and for those that these link to."""
    waiting = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    known: set[str] = set()
    while waiting:
        path, text = waiting.pop()
        for target in _targets(path, text):
            if not target.startswith("docs/") and target not in known and _is_readable(ROOT / target):
                known.add(target)
                files.append(
                    File.generated(config, _page_of(target), content=_text_of(ROOT / target), inclusion=_OUTSIDE)
                )
                if target.endswith(".md"):
                    waiting.append((target, (ROOT / target).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to files outside docs/ lead to their pages."""
    here = page.file.src_uri
    path = here.removeprefix("source/").removesuffix(".md") if here.startswith("source/") else f"docs/{here}"

    def link(match: re.Match[str]) -> str:
        target = _target(path, match[1])
        if not _is_readable(ROOT / target):
            return match[0]  # MkDocs reports it
        led = target.removeprefix("docs/") if target.startswith("docs/") else _page_of(target)
        return f"]({posixpath.relpath(led, posixpath.dirname(here))}{match[2] or ''})"

    parts = _FENCE.split(markdown)
    return "".join(part if index % 2 else _LINK.sub(link, part) for index, part in enumerate(parts))


def _targets(path: str, text: str) -> list[str]:
    """Return what a file links to, as paths in the repository; `path` is its own."""
    return [_target(path, match[1]) for match in _LINK.finditer(_FENCE.sub("", text))]


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _is_readable(path: Path) -> bool:
    """Return whether there is a folder or a text here, which a page can show."""
    try:
        return path.is_dir() or bool(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _page_of(target: str) -> str:
    return f"source/{target}.md"


def _text_of(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        rows = [f"    {item.name}{'/' * item.is_dir()}" for item in sorted(path.iterdir()) if item.name[0] not in "._"]
        return "\n".join([f"{_UNSEARCHED}# {name}/\n", *rows, ""])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return _UNSEARCHED + text
    return f"{_UNSEARCHED}# {name}\n\n````{_LANGUAGES.get(path.suffix, 'text')}\n{text}````\n"
