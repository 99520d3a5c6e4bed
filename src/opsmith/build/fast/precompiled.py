"""Finds, builds and uses the precompiled form of the slim header for a compile step's flags.

gcc reads it in half a second instead of six. It holds for one compiler, one torch and one set of flags; gcc itself
rejects it if a relevant macro differs, and then reads the text. It lies in the store, is checked by digest at each use,
and is built in the background of the first build that could have used it. Half a gigabyte each; the store drops unused
ones.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from opsmith import _env, _subprocess
from opsmith._background import do_quietly, start_in_background
from opsmith._version import __version__
from opsmith.build.fast.slim import SLIM_DIR
from opsmith.build.key import compiler_environment
from opsmith.build.plan import Step
from opsmith.errors import CompileError, StoreError
from opsmith.store import Artifact, Manifest, Store, default_root, digest, digest_file, find_damage, source_key
from opsmith.toolchain import Toolchain
from opsmith.toolchain.resources import available_memory_bytes

__all__ = [
    "Loan",
    "Precompiled",
    "build_precompiled",
    "describe_precompiled",
    "find_precompiled",
    "main",
    "precompile",
    "use_precompiled",
]

_HEADER = SLIM_DIR / "opsmith" / "slim.h"

# Measured with gcc 12 and torch 2.13: 1.9 GB. Where less is free the header would be built at the expense of others.
_NEEDED_BYTES = 3 << 30

# Words of a compile command with a value in the next word.
_WITH_VALUE = frozenset(
    {"-I", "-D", "-U", "-isystem", "-include", "-imacros", "-iquote", "-idirafter", "-x", "--param"}
)
# Words that say nothing about how headers are read. Of a macro of the user's, gcc says whether it matters.
_NO_MATTER = ("-I", "-D", "-U", "-W", "-iquote", "-idirafter", "-ffile-prefix-map=", "-l", "-L")
# The macros of the plan's own, which torch's headers know.
_OWN = frozenset({"-DNDEBUG", "-DTORCH_API_INCLUDE_EXTENSION_H"})
# With these a source starts with something that is not torch's header.
_NO_HEADER_FIRST = ("-include", "-imacros", "-x")


@dataclass(frozen=True)
class Precompiled:
    """A precompiled header that may be in a store or not: what it is called there, and how it is made."""

    inputs: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    compiler: str
    torch: str

    @property
    def source_key(self) -> str:
        """Its key in the store."""
        return source_key(dict(self.inputs))

    def lock(self, store: Store) -> Path:
        """Return the lock file of the background build."""
        return store.layout.lock(f"{self.source_key}-background")


class Loan:
    """A precompiled header that is checked while a compiler reads it: the digest of half a gigabyte takes 0.4 s."""

    def __init__(self, artifact: Artifact, store: Store) -> None:
        """Begin to check a header of a store."""
        self.header = _named_in_sources(artifact)
        self._artifact, self._store = artifact, store
        checker = ThreadPoolExecutor(1)
        self._damage = checker.submit(find_damage, artifact.folder, artifact.manifest)
        checker.shutdown(wait=False)

    def is_sound(self) -> bool:
        """Wait for the check; a damaged header leaves the store, and what was compiled with it does not count."""
        if self._damage.result() is None:
            return True
        with suppress(StoreError):
            self._store.remove(self._artifact)
        return False


def describe_precompiled(step: Step, toolchain: Toolchain) -> Precompiled | None:
    """Return the precompiled header that fits a compile step's flags, or None if it cannot have one."""
    if toolchain.host.kind != "gcc":
        return None  # clang ends with an error where gcc reads the text
    words = list(step.argv[len(toolchain.host.command) : step.argv.index("-MD")])
    if any(word.startswith(_NO_HEADER_FIRST) for word in words):
        return None
    argv = (*toolchain.host.command, *_that_matter(words))
    inputs = {
        "command": digest(*argv),  # with the paths of torch's folders: the header remembers its files by path
        "compiler": digest(toolchain.host.identity),
        "torch": digest(toolchain.torch.identity),
        "environment": digest(*compiler_environment()),
        "header": digest_file(_HEADER),
    }
    return Precompiled(tuple(sorted(inputs.items())), argv, toolchain.host.identity, toolchain.torch.version)


def find_precompiled(wanted: Precompiled, store: Store) -> Loan | None:
    """Return the header where the store has it. Raises StoreError if others could have written to the store."""
    found = store.find(wanted.source_key, at_sight=True)
    return Loan(found, store) if found is not None else None


def use_precompiled(step: Step, header: Path) -> Step:
    """Return a step that reads the header first, in its precompiled form."""
    at = step.argv.index("-MD")
    return replace(step, argv=(*step.argv[:at], "-include", str(header), *step.argv[at:]))


def build_precompiled(wanted: Precompiled, store: Store) -> Path:
    """Return the header to include, made now where the store has none. Raises CompileError or StoreError."""
    with store.lock(wanted.source_key):
        if (found := store.find(wanted.source_key)) is not None:
            return _named_in_sources(found)
        with store.staging() as scratch:
            published = scratch / "artifact"
            published.mkdir()
            header = published / _HEADER.name
            shutil.copyfile(_HEADER, header)
            library = published / f"{header.name}.gch"
            argv = [*wanted.argv, "-x", "c++-header", str(header), "-o", str(library)]
            done = _subprocess.run(argv, cwd=published)
            if done.status != 0:
                raise CompileError(f"torch's headers cannot be precompiled:\n\n{done.output.strip()}")
            manifest = Manifest.describe(
                library,
                name="torch headers",
                inputs=dict(wanted.inputs),
                devices=(),
                archs=(),
                toolchain={"host": wanted.compiler},
                torch_version=wanted.torch,
                opsmith_version=__version__,
                kind="header",
            )
            artifact = store.publish(wanted.source_key, published, manifest=manifest, headers={})
            return _named_in_sources(artifact)


def _named_in_sources(artifact: Artifact) -> Path:
    """Return the header to include; gcc looks by itself for the precompiled form beside it."""
    return artifact.library.with_suffix("")


def precompile(wanted: Precompiled, store: Store) -> None:
    """Provide the header, as OPSMITH_PCH says.

    `auto` builds it in the background for the next build, `wait` builds it now, `off` neither builds nor uses it.
    Raises ArgumentError for another value, and what `build_precompiled` raises.
    """
    mode = _env.read_mode("OPSMITH_PCH")
    if mode == "wait":
        build_precompiled(wanted, store)
        return
    free = available_memory_bytes()
    if mode == "auto" and (free is None or free > _NEEDED_BYTES):
        text = json.dumps([wanted.inputs, wanted.argv, wanted.compiler, wanted.torch])
        start_in_background(__name__, str(store.root), text, lock=wanted.lock(store))


def _that_matter(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that decide how headers are read."""
    rest = iter(words)
    for word in rest:
        value = [next(rest, "")] if word in _WITH_VALUE else []
        if word in _OWN or not word.startswith(_NO_MATTER):
            yield word
            yield from value


def main(root: str, text: str) -> None:
    """What the process in the background does, with the arguments that `precompile` gave it."""
    inputs, argv, compiler, torch = json.loads(text)
    wanted = Precompiled(tuple((name, value) for name, value in inputs), tuple(argv), compiler, torch)
    store = Store(Path(root) if root else default_root())
    do_quietly(lambda: build_precompiled(wanted, store), lock=wanted.lock(store))


if __name__ == "__main__":
    main(*sys.argv[1:])
