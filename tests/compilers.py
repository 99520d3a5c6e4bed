"""Runs compilers, and keeps what they made: a command that has succeeded on the same files does not run again."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from cache import CACHE

__all__ = ["INCLUDE", "OPS", "compiled", "compiler_with_bridge", "find_compiler", "run"]

SOURCE = Path(__file__).parents[1] / "src" / "opsmith"
INCLUDE, OPS = SOURCE / "include", SOURCE / "ops"


def find_compiler(name: str) -> str:
    """Return a program's path; skip the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on this machine")
    return path


def run(*command: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    words = [str(word) for word in command]
    variables = {**os.environ, **environment}
    done = subprocess.run(words, capture_output=True, text=True, env=variables, check=False, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def compiled(source: Path, *command: object, **environment: str) -> Path:
    """Compile a source with a command and return the output; `-o` and the source's name are added at the end.

    The key covers the command, its environment, the compiler, torch, the source, and all of opsmith's C++ and CUDA.
    """
    words = [str(word) for word in command]
    compiler = Path(words[0]).resolve()
    stat = compiler.stat()
    said = repr([words, environment, str(compiler), stat.st_size, stat.st_mtime_ns, torch.__version__, source.name])
    key = hashlib.sha256(said.encode() + source.read_bytes() + _headers()).hexdigest()[:32]
    output = CACHE / "compiled" / key
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        made = output.with_suffix(f".{os.getpid()}")
        run(*words, *(() if "-fsyntax-only" in words else ("-o", made)), source, **environment)
        made.touch()
        made.rename(output)
    return output


@functools.cache
def _headers() -> bytes:
    """Return a hash of all that a source of the tests may include."""
    content = hashlib.sha256()
    for folder in (INCLUDE, OPS):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in {".h", ".cuh", ".cpp", ".cu"}):
            content.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return content.digest()


def compiler_with_bridge(folder: Path) -> str:
    """Write a C++ compiler that has the bridge ready, and return its path.

    It gives the bridge that the tests run with, and compiles the rest as g++ does. Flags of its own it must not have: the
    store knows a compiler by its version, and would give what it made to others.
    """
    from opsmith.runtime.bridge_library import describe_bridge

    bridge = describe_bridge()["library"]
    assert bridge is not None
    path = folder / "c++-with-bridge"
    path.write_text(_WITH_BRIDGE.format(compiler=find_compiler("g++"), bridge=bridge))
    path.chmod(0o755)
    return str(path)


# The preprocessor still writes the names of the headers, and finds whether they are there.
_WITH_BRIDGE = """#!/bin/sh
case " $* " in
  *" -c "*/opsmith/bridge/*) exec {compiler} "$@" -E;;
  *" -o opsmith_bridge."*) exec cp "{bridge}" "opsmith_bridge.${{*##* opsmith_bridge.}}";;
  *) exec {compiler} "$@";;
esac
"""
