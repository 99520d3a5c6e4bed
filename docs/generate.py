"""Make the pages that come from tables in the code; `--check` only says whether they are current.

docs/errors.md        the error catalogue
docs/environment.md   the environment variables
docs/check.md         the table of properties in it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from opsmith._env import VARIABLES
from opsmith.catalogue import GROUPS, Entry, explain

FOLDER = Path(__file__).resolve().parent

_ERRORS = """# Errors, their causes and remedies

<!-- made by docs/generate.py from src/opsmith/catalogue; do not edit -->

What compilers, linkers, loaders, PyTorch and pip print when an extension does not build or load, and what it means. opsmith
ends its own messages with these texts, with the versions and paths of the case filled in. For the log of any other build:

```console
$ pip install . 2>&1 | opsmith explain-error
$ opsmith explain-error build.log
```
"""


_ENVIRONMENT = """# Environment variables

<!-- made by docs/generate.py from src/opsmith/_env.py; do not edit -->

All that opsmith reads; it reads none elsewhere. `opsmith doctor` says which of them are set and which of those are wrong.

| variable | what it does |
|---|---|"""


def environment_page() -> str:
    """Return docs/environment.md."""
    rows = [f"| `{variable.name}` | {_escape(variable.help)} |" for variable in VARIABLES]
    return "\n".join([_ENVIRONMENT, *rows]) + "\n"


def errors_page() -> str:
    """Return docs/errors.md."""
    parts = [_ERRORS]
    for group in GROUPS:
        links = [f"* [{entry.title}](#{entry.id})" for entry in group.entries]
        parts.append("\n".join([f"**{group.title}**", "", *links, ""]))
    for group in GROUPS:
        parts.append(f"## {group.title}\n")
        parts += [line for entry in group.entries for line in _section(entry)]
    return "\n".join(parts).rstrip() + "\n"


def check_page() -> str:
    """Return docs/check.md with the table of properties made anew; the rest of it is written by hand."""
    from opsmith.checker.properties.table import PROPERTIES

    page = (FOLDER / "check.md").read_text(encoding="utf-8")
    head, _, rest = page.partition("<!-- properties: begin")
    mark, _, after = rest.partition("-->\n")
    rows = ["| property | holds where | for each | on |", "|---|---|---|---|"]
    for item in PROPERTIES:
        per = "element type" if item.per == "dtype" else "device"
        on = "CPU and GPU" if len(item.devices) > 1 else {"cpu": "CPU", "cuda": "GPU"}[item.devices[0]]
        rows.append(f"| `{item.name}` | {_escape(item.title)} | {per} | {on} |")
    table = "\n".join(rows)
    _, _, tail = after.partition("<!-- properties: end -->")
    return f"{head}<!-- properties: begin{mark}-->\n{table}\n<!-- properties: end -->{tail}"


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


_PAGES: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "environment.md": environment_page,
    "check.md": check_page,
}


def main() -> None:
    """Write the pages, or exit with 1 where one is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for name, page in _PAGES.items():
        file = FOLDER / name
        if not arguments.check:
            file.write_text(page(), encoding="utf-8")
        elif not file.is_file() or file.read_text(encoding="utf-8") != page():
            sys.exit(f"docs/{name} is not what the code says; run `python docs/generate.py`")


if __name__ == "__main__":
    main()
