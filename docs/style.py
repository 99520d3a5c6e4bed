"""Checks the style of the documentation's prose: `python docs/style.py [FILE ...]`, or all Markdown of the checkout.

proselint finds what is worn out, redundant or repeated; docs/style.toml has the names and words that are ours. Code, links'
addresses, formulas and comments are not prose. Prints a line for each finding, and exits with 1 if there is one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_name("style.toml")

_NOT_PROSE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+).*?^(?P=indent)(?P=fence)[^\n]*$"  # blocks of code
    r"|<!--.*?-->|<[^>\n]+>"
    r"|`+[^`\n]+`+|\$[^$\n]+\$"
    r"|\]\([^)\n]*\)|https?://\S+",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, order=True)
class Finding:
    """What is wrong, and where: the path, and the line and column from 1 on."""

    path: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.text}"


def prose(text: str) -> str:
    """Return a text with blanks in place of what is not prose, so that lines and columns stay."""
    return _NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def find_words(path: str, text: str, rules: dict[str, str]) -> Iterator[Finding]:
    """Find the patterns of a table in prose. Lower case matches a capital at the beginning of a sentence too."""
    for pattern, right in rules.items():
        for found in re.finditer(pattern, text):
            before = text[: found.start()]
            line, column = before.count("\n") + 1, found.start() - before.rfind("\n")
            yield Finding(path, line, column, f"'{found.group()}': write {right}")


def find_phrases(texts: dict[str, str], rules: dict[str, Any]) -> Iterator[Finding]:
    """Find what proselint finds in the prose of some files."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "proselint.json")
        config.write_text(json.dumps({"checks": dict.fromkeys(rules["off"], False)}), encoding="utf-8")
        copies = {Path(folder, f"{index}.md").resolve(): path for index, path in enumerate(texts)}
        for copy, path in copies.items():
            copy.write_text(texts[path], encoding="utf-8")
        command = [sys.executable, "-m", "proselint", "check", "-o", "json", "--config", str(config), *map(str, copies)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            results = json.loads(done.stdout)["result"]
        except (json.JSONDecodeError, KeyError):
            raise SystemExit(f"proselint failed: {done.stderr or done.stdout}") from None
        for address, result in results.items():
            path = copies[Path(address.removeprefix("file://")).resolve()]
            for one in result["diagnostics"]:
                begin, end = (position - 1 for position in one["span"])
                if not _is_meant(texts[path][begin:end], rules["allowed"]):
                    line, column = one["pos"]
                    yield Finding(path, line, column, f"{one['message']} [{one['check_path']}]")


def _is_meant(words: str, allowed: list[str]) -> bool:
    """Return whether a finding is none: sizes such as 64 x 64, and what only looks repeated because code is left out."""
    return "\n" in words or "  " in words or re.search(r"\d", words) is not None or words.strip() in allowed


def find_all(paths: Iterable[str]) -> list[Finding]:
    """Return what is wrong in some files, which are relative to the checkout, in order."""
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))
    texts = {path: prose((ROOT / path).read_text(encoding="utf-8")) for path in paths}
    found = list(find_phrases(texts, rules["proselint"]))
    for path, text in texts.items():
        found += [*find_words(path, text, rules["names"])]
        found += find_words(path, text, {f"(?i:{pattern})": right for pattern, right in rules["words"].items()})
    return sorted(found)


def documents() -> list[str]:
    """Return the Markdown of the checkout that people write."""
    skipped = tomllib.loads(RULES.read_text(encoding="utf-8"))["skip"]
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split() if not any(Path(path).match(pattern) for pattern in skipped)]


def main(arguments: list[str]) -> int:
    """Print what is found."""
    found = find_all([str(Path(one).resolve().relative_to(ROOT)) for one in arguments] or documents())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
