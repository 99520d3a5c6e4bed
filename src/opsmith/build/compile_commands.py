"""Writes compile_commands.json for clangd: which command compiles which source.

The form is Clang's JSON compilation database. A view kernel is not a file of its own to the compiler: a generated file
includes it. So the user's file gets the generated file's command with its own name in it, which parses the template, and
the generated file, which shows how it is instantiated, is kept where the editor finds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsmith.errors import BuildError
from opsmith.store.reading import parse_json

if TYPE_CHECKING:
    from opsmith.build.plan import Plan, Step

__all__ = ["DATABASE", "Entry", "merge_database", "plan_entries", "read_database"]

DATABASE = "compile_commands.json"

# One command of the database: "directory", "file" and "arguments".
Entry = Mapping[str, Any]

# What only makes files: flag -> how many words it has. An editor's server makes none, and -MD in a folder that is gone
# would be an error.
_OUTPUT_FLAGS = {"-MD": 1, "-MF": 2, "-o": 2, "-c": 1}

# nvcc's flags that clang does not have, with a value in the next word or after an equals sign.
_NVCC_ONLY = (
    "-Xcompiler",
    "--expt-",
    "-ccbin",
    "-gencode",
    "--generate-code",
    "-arch",
    "--use_fast_math",
    "-Xptxas",
    "-t",
)
_WITH_WORD = frozenset({"-Xcompiler", "-ccbin", "-gencode", "--generate-code", "-Xptxas", "-t"})


def plan_entries(plan: Plan, folder: Path) -> list[Entry]:
    """Return an entry for each file that a plan compiles and for each of the user's files behind a generated one.

    `folder` is where the generated files lie; paths in the commands are absolute.
    """
    entries: dict[str, Entry] = {}
    for step in plan.steps:
        if "-c" not in step.argv:
            continue
        source = step.inputs[0]
        generated = source in plan.files
        files = [folder / source if generated else Path(source)]
        files += [user for user in step.users if generated and user.suffix not in {".h", ".hpp", ".cuh"}]
        for file in files:
            # The first command wins: a file that is compiled for two devices is shown as for the first.
            entries.setdefault(str(file), _entry(step, source, file, folder))
    return list(entries.values())


def merge_database(path: Path, entries: Iterable[Entry]) -> list[Entry]:
    """Return a database's entries with some replaced, by file, and others added.

    Raises BuildError if the file there is not a compilation database: it may be the user's own file.
    """
    merged = {_file_of(entry): entry for entry in (read_database(path) if path.exists() else ())}
    merged |= {_file_of(entry): entry for entry in entries}
    return list(merged.values())


def read_database(path: Path) -> list[Entry]:
    """Return the entries of a database; raises BuildError if it is not one."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(found, list) or not all(isinstance(entry, dict) and "file" in entry for entry in found):
            raise ValueError("it is not a list of commands")
    except (OSError, ValueError) as error:
        raise BuildError(
            f"{path} is not a compilation database ({error}) and is left unchanged. Move it away"
        ) from None
    return found


def _file_of(entry: Entry) -> str:
    return os.path.normpath(Path(str(entry.get("directory", ""))) / str(entry["file"]))


def _entry(step: Step, source: str, file: Path, folder: Path) -> Entry:
    words = _without_outputs(step.argv)
    words = [str(file) if word == source else word for word in words]
    if Path(words[0]).name.startswith("nvcc"):
        words = _for_clang(words)
    elif file.suffix not in {".c", ".cc", ".cpp", ".cxx", ".c++", ".hip"}:
        words = [words[0], "-x", "c++", *words[1:]]
    # What follows `--` is the file, even where its name begins with a dash; every driver takes it last.
    words.remove(str(file))
    return {"directory": str(folder), "file": str(file), "arguments": [*words, "-c", str(file)]}


def _without_outputs(argv: Iterable[str]) -> list[str]:
    kept, skip = [], 0
    for word in argv:
        skip = skip or _OUTPUT_FLAGS.get(word, 0)
        if not skip:
            kept.append(word)
        else:
            skip -= 1
    return kept


def _for_clang(words: list[str]) -> list[str]:
    """Return nvcc's command as clang's: the same language, macros and folders. The toolkit is where nvcc is."""
    root = Path(words[0]).resolve().parent.parent
    kept, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word.startswith(_NVCC_ONLY):
            skip = word in _WITH_WORD
        else:
            kept.append(word)
    return ["clang++", "-x", "cuda", "--cuda-host-only", "-nocudalib", f"--cuda-path={root}", *kept]
