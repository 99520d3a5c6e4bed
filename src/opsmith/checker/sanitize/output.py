"""Reads the output of a sanitizer: each report as data, with the first line of the user's own code in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MARK", "Sighting", "SourceLine", "read_output"]

# A line of ours in the output, before each call: which one the following report is about.
MARK = "opsmith-call: "

_FRAME = re.compile(
    r"^\s+#\d+ (?:0x[0-9a-f]+ in )?(?P<function>.*?) (?P<file>[^\s:()]+):(?P<line>\d+)(?::\d+)?(?: .*)?$"
)
_RUNTIME_ERROR = re.compile(r"^(?P<file>\S+?):(?P<line>\d+):\d+: runtime error: (?P<text>.*)$")
_ADDRESS = re.compile(r"^==\d+==\s*ERROR: AddressSanitizer:? (?P<text>.*)$")
_ACCESS = re.compile(r"^(?P<text>(?:READ|WRITE) of size \d+) at")
_REGION = re.compile(r"^0x[0-9a-f]+ is located (?P<text>.*? of \d+-byte region)")
_THREAD = re.compile(r"^WARNING: ThreadSanitizer: (?P<text>.*?) \(pid=\d+\)")
_GPU = re.compile(r"^=+ (?P<text>\S.*)$")
_GPU_PLACE = re.compile(r"(?:in|at) (?P<file>[^\s:()]+\.(?:cuh?|h|hpp|cpp)):(?P<line>\d+)")
# What compute-sanitizer says besides its findings.
_GPU_TALK = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Saved host backtrace",
    "Host Frame",
)


@dataclass(frozen=True)
class SourceLine:
    """A line of one of the user's files."""

    file: Path
    line: int

    @property
    def text(self) -> str:
        """The text of the line, or nothing if it cannot be read."""
        try:
            return self.file.read_text(encoding="utf-8", errors="replace").splitlines()[self.line - 1].strip()
        except (OSError, IndexError):
            return ""


@dataclass(frozen=True)
class Sighting:
    """One report: what, where in the user's files (None if no frame is theirs), and in which call."""

    what: str
    source: SourceLine | None
    call: str


def read_output(output: str, files: Sequence[Path]) -> list[Sighting]:
    """Return the reports in a process's output, each once; `files` are the user's."""
    found: dict[tuple[str, SourceLine | None], Sighting] = {}
    call = ""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if line.startswith(MARK):
            call = line.removeprefix(MARK)
        elif (sighting := _read_at(lines, index, call, files)) is not None:
            found.setdefault((sighting.what, sighting.source), sighting)
    return list(found.values())


def _read_at(lines: list[str], index: int, call: str, files: Sequence[Path]) -> Sighting | None:
    line = lines[index]
    if match := _RUNTIME_ERROR.match(line):
        source = _source_line(match["file"], match["line"], files)
        return Sighting(_without_addresses(match["text"]), source, call)
    if match := _ADDRESS.match(line):
        return _of_address(match["text"], lines[index + 1 :], call, files)
    if match := _THREAD.match(line):
        return Sighting(match["text"], _first_source_line(_until(lines[index + 1 :], "====="), files), call)
    if (
        (match := _GPU.match(line))
        and not line.startswith("=========     ")
        and not match["text"].startswith(_GPU_TALK)
    ):
        return _of_gpu(match["text"], lines[index + 1 :], call, files)
    return None


def _of_address(text: str, rest: list[str], call: str, files: Sequence[Path]) -> Sighting:
    what = re.split(r" on | \(", text, maxsplit=1)[0]
    report = list(_until(rest, "SUMMARY:"))
    details = [m["text"] for line in report for pattern in (_ACCESS, _REGION) if (m := pattern.match(line))]
    # After the first empty line come the stacks of the allocation.
    return Sighting(", ".join([what, *details[:2]]), _first_source_line(_until(report, ""), files), call)


def _of_gpu(text: str, rest: list[str], call: str, files: Sequence[Path]) -> Sighting | None:
    """Return a report of compute-sanitizer, or None for one about a kernel of PyTorch's.

    Where no files are known, as for an operator that opsmith has not built, every other kernel is the user's.
    """
    body = [text, *_until_next(rest)]
    what = _without_addresses(re.split(r" at |\. Saved", text, maxsplit=1)[0])
    for line in body:
        for match in _GPU_PLACE.finditer(line):
            if (source := _source_line(match["file"], match["line"], files)) is not None:
                return Sighting(what, source, call)
    is_kernel = any(" at " in f" {line}" for line in body) and not any("at::" in line for line in body)
    return Sighting(what, None, call) if is_kernel and not files else None


def _until_next(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("=========     "):
            return
        yield line


def _first_source_line(lines: Iterator[str], files: Sequence[Path]) -> SourceLine | None:
    for line in lines:
        if (match := _FRAME.match(line)) and (source := _source_line(match["file"], match["line"], files)) is not None:
            return source
    return None


def _source_line(file: str, line: str, files: Sequence[Path]) -> SourceLine | None:
    """Return the line of one of the user's files. Paths in a library are relative, so it does not name a folder."""
    parts = Path(file).parts
    named = [path for path in files if path.name == Path(file).name]
    close = [path for path in named if path.parts[-len(parts) :] == parts] or named
    return SourceLine(close[0], int(line)) if close else None


def _until(lines: Sequence[str], start: str) -> Iterator[str]:
    for line in lines:
        if (line.startswith(start) and start) or line == start:
            return
        yield line


def _without_addresses(text: str) -> str:
    return re.sub(r"\b0x[0-9a-f]{6,}\b", "an address", text)
