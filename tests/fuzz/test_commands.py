"""Calls `opsmith` with command lines that may be nonsense: it ends with a status of 0 to 2, and prints no traceback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import strategies as st
from outcomes import Raised, attempt

from opsmith.cli import main

# Not those that start other programs for minutes, or forever, nor `new`, which makes the folder that it is given.
_COMMANDS = (
    "build",
    "check",
    "bench",
    "profile",
    "stub",
    "explain-error",
    "cache",
    "editor",
    "plan",
    "plan-sources",
    "audit",
    "hub",
)
# They run an operator that they find, for as long as it takes.
_RUNNING = frozenset({"check", "bench", "profile"})

_VALUES = (
    *(
        "",
        "-",
        "--",
        "x",
        "../x",
        "../../x",
        "..",
        ".",
        "/",
        "/dev/null",
        "/dev/full",
        "/nothing/here",
        "~",
        "a b",
        "%s%n",
    ),
    *("\n", "\x1b[31m", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\udcff", "x" * 5000, "x" * 300 + ".py", "{}", "[", "*"),
    *(
        "0",
        "1",
        "-1",
        "nan",
        "inf",
        "1e400",
        "9223372036854775808",
        "1.5",
        "8,16",
        "B=0",
        "B=-1",
        "B=9999999999999",
        "=",
    ),
    *("no.such.module", "os", "tests", "opsmith", "opsmith.ops.add2::nothing", "::", "json::dumps"),
    *("folder", "empty.py", "broken.py", "binary.py", "raises.py", "exits.py", "operators.py", "log.txt", "empty.txt"),
    *("folder/x", "empty.py/x", "binary.txt", "float32", "float7", "cpu", "cuda", "jit", "cmake", "address", "json"),
)


def _path(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return [one for name, found in inner.items() if found is not None for one in _path(found, (*path, name))]


_LEAVES = [
    one
    for name in _COMMANDS
    for one in _path(importlib.import_module(f"opsmith.cli.{name.replace('-', '_')}").command, (name,))
]


@pytest.mark.parametrize(
    ("path", "command"), _LEAVES, ids=lambda given: " ".join(given) if isinstance(given, tuple) else ""
)
def test_any_command_line(
    path: tuple[str, ...], command: click.Command, fuzz: Callable[..., None], tmp_path: Path
) -> None:
    _write_files(tmp_path)
    usable = [value for value in _VALUES if path[0] not in _RUNNING or value != "operators.py"]
    values = st.one_of(st.sampled_from(usable), st.text(max_size=5).filter(lambda text: "\0" not in text))
    words = st.one_of(
        values.map(lambda value: [value]),
        *(
            st.tuples(st.just(name), values).map(list)
            for parameter in command.params
            for name in parameter.opts
            if isinstance(parameter, click.Option) and not parameter.is_flag
        ),
        *(
            st.just([name])
            for parameter in command.params
            for name in parameter.opts
            if isinstance(parameter, click.Option) and parameter.is_flag
        ),
    )
    lines = st.lists(words, max_size=4).map(lambda parts: [word for part in parts for word in part])

    def test(line: list[str]) -> None:
        found = attempt(lambda: _run([*path, *line], tmp_path))
        assert not isinstance(found, Raised), f"{found.kind}: {found.text}"
        assert found in {0, 1, 2}, found

    # What a command leaves behind, such as modules, is looked at where it fails: then each line has a child of its own.
    fuzz(lines, test, examples=20, together=True)


def _run(words: list[str], folder: Path) -> int:
    os.chdir(folder)
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    os.environ["OPSMITH_CACHE_DIR"] = str(folder / "store")
    try:
        main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _write_files(folder: Path) -> None:
    (folder / "folder").mkdir()
    for name, content in {
        "empty.py": b"",
        "empty.txt": b"",
        "broken.py": b"def f(:\n",
        "binary.py": bytes(range(256)) * 20,
        "binary.txt": bytes(range(256)) * 2000,
        "raises.py": b"raise RuntimeError('no')\n",
        "exits.py": b"import sys; sys.exit(77)\n",
        "operators.py": (
            b"from jaxtyping import Float\nfrom torch import Tensor\nimport opsmith\n@opsmith.op(cpu='missing.cpp')\n"
            b"def f(x: Float[Tensor, 'N']) -> Float[Tensor, 'N']:\n    return x\n"
        ),
        "log.txt": b"a.cpp:3:5: error: 'foo' was not declared in this scope\n" * 500,
    }.items():
        (folder / name).write_bytes(content)
