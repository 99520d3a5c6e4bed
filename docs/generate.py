"""Make docs/errors.md from the error catalogue; `--check` only says whether it is current."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from opsmith.catalogue import GROUPS, Entry, explain

PAGE = Path(__file__).resolve().parent / "errors.md"

_HEAD = """# Errors, their causes and remedies

<!-- made by docs/generate.py from src/opsmith/catalogue; do not edit -->

What compilers, linkers, loaders, PyTorch and pip print when an extension does not build or load, and what it means. opsmith
ends its own messages with these texts, with the versions and paths of the case filled in. For the log of any other build:

```console
$ pip install . 2>&1 | opsmith explain-error
$ opsmith explain-error build.log
```
"""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for group in GROUPS:
        links = [f"* [{entry.title}](#{entry.id})" for entry in group.entries]
        parts.append("\n".join([f"**{group.title}**", "", *links, ""]))
    for group in GROUPS:
        parts.append(f"## {group.title}\n")
        parts += [line for entry in group.entries for line in _section(entry)]
    return "\n".join(parts).rstrip() + "\n"


def _section(entry: Entry) -> Iterator[str]:
    found = explain(entry.example)[0]
    yield f'<a id="{entry.id}"></a>\n### {entry.title}\n'
    yield f"```text\n{entry.example}\n```\n"
    yield f"{_escape(found.cause)}\n"
    yield f"**Remedy.** {_escape(found.remedy)}\n"


def _escape(text: str) -> str:
    """Return a text with what Markdown would read as markup escaped, outside of `code`."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        for mark in ("\\", "*", "_", "<", ">"):
            parts[index] = parts[index].replace(mark, f"\\{mark}")
    return "`".join(parts)


def main() -> None:
    """Write the page, or exit with 1 where it is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not arguments.check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/errors.md is not that of the catalogue; run `python docs/generate.py`")


if __name__ == "__main__":
    main()
