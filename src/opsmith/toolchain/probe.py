"""Asks programs about themselves and caches the answers.

`g++ -v` costs some 10 ms, `nvcc --version` the same, and each process would ask again. Answers are kept in a file of
the store. An answer holds while the program, and each file the answer depends on, has the same path, size, time and
inode: the rule of Make, which is good enough for a version, and is used for no artefact.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from opsmith import _subprocess
from opsmith._forks import Lock
from opsmith.errors import ToolchainError
from opsmith.store.files import write_atomic
from opsmith.store.locate import Layout, default_root
from opsmith.store.reading import parse_json, read_regular
from opsmith.store.safety import find_danger

__all__ = ["ProbeCache", "default_probes"]

_FORMAT_VERSION = 1

# A compiler answers in milliseconds. A cold network file system is given its time; a wrapper that waits for input not.
_TIMEOUT_S = 60.0

_Stamps = dict[str, list[int]]


class ProbeCache:
    """The answers of programs, kept in memory and, where `path` is given, in a file for the next process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._answers: dict[str, Any] | None = None
        self._lock = Lock()  # held for the answers and their file, never while a program runs

    def ask(
        self,
        program: Path,
        *arguments: str,
        depends_on: Callable[[str], Iterable[Path]] = lambda answer: (),
    ) -> str:
        """Return what the program prints.

        `depends_on` names, given the answer, further files that decide it: behind a script that starts a compiler, the
        compiler. Raises ToolchainError if the program cannot start, fails, or does not come to an end.
        """
        argv = (str(program), *arguments)
        key = json.dumps(argv)
        with self._lock:
            known = self._known().get(key)
        if (answer := _still_valid(known, program)) is not None:
            return answer
        answer = _run(argv)
        if stamps := _stamps((program, *depends_on(answer))):
            with self._lock:
                self._known()[key] = {"stamps": stamps, "answer": answer}
                self._save()
        return answer

    def stamps(self) -> _Stamps:
        """Return the version of every file that an answer depends on which still holds, by its real path.

        Others are asked again before anything relies on them: a program that is gone does not count.
        """
        with self._lock:
            known = [entry["stamps"] for entry in self._known().values()]
        return {path: stamp for entry in known if _stamps(map(Path, entry)) == entry for path, stamp in entry.items()}

    def _known(self) -> dict[str, Any]:
        if self._answers is None:
            self._answers = self._load()
        return self._answers

    def _load(self) -> dict[str, Any]:
        try:
            if self._path is None or find_danger(self._path.parent, self._path) is not None:
                return {}
            content = parse_json(read_regular(self._path))
            answers = content["answers"] if content["format"] == _FORMAT_VERSION else {}
            return {key: entry for key, entry in answers.items() if _is_entry(entry)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _save(self) -> None:
        if self._path is None:
            return
        # Others may have written meanwhile. What is lost in a race is asked again.
        content = {"format": _FORMAT_VERSION, "answers": {**self._load(), **(self._answers or {})}}
        scratch = self._path.parent / "staging"
        # A store that cannot be written is reported where an artefact would be lost, not for a version.
        with suppress(OSError):
            write_atomic(self._path, json.dumps(content).encode(), scratch=scratch, durable=False)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("stamps"), dict) and isinstance(entry.get("answer"), str)


def default_probes() -> ProbeCache:
    """Return this process's cache, kept in the store of `default_root`."""
    return _probes_at(Layout(default_root()).probes)


@cache
def _probes_at(path: Path) -> ProbeCache:
    return ProbeCache(path)


def _run(argv: Sequence[str]) -> str:
    try:
        done = _subprocess.run(argv, timeout_s=_TIMEOUT_S)
    except OSError as error:
        raise ToolchainError(f"{argv[0]} cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"`{' '.join(argv)}` did not finish within {_TIMEOUT_S:.0f} s") from error
    if done.status != 0:
        raise ToolchainError(f"`{' '.join(argv)}` failed with status {done.status}:\n{done.output.strip()}")
    return done.output


def _still_valid(entry: Any, program: Path) -> str | None:
    try:
        stamps, answer = entry["stamps"], entry["answer"]
        # The link itself may lead elsewhere now, so the program's own path is resolved anew.
        is_same = str(program.resolve()) in stamps and _stamps(map(Path, stamps)) == stamps
    except (OSError, TypeError, KeyError, ValueError):
        return None
    return answer if is_same and isinstance(answer, str) else None


def _stamps(paths: Iterable[Path]) -> _Stamps | None:
    """Return what tells each file's version from the next, by its real path; None if one is missing."""
    stamps: _Stamps = {}
    try:
        for path in paths:
            real = path.resolve()
            status = real.stat()
            stamps[str(real)] = [status.st_size, status.st_mtime_ns, status.st_ino]
    except (OSError, ValueError):  # ValueError: a damaged file of answers can name what no path can be
        return None
    return stamps
