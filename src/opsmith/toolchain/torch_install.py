"""Finds torch and what it is built for, from its files: importing it costs a second or more."""

from __future__ import annotations

import ast
import functools
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opsmith._torch_release import refuse_older, release_of
from opsmith.errors import ToolchainError

__all__ = ["TorchInstall", "find_torch", "installed_version", "require_torch"]

_INSTALL = "Install it as https://pytorch.org/get-started/locally says."


@dataclass(frozen=True)
class TorchInstall:
    """An installed torch."""

    root: Path
    version: str
    cuda: str | None  # the CUDA that it is built for
    hip: str | None  # the HIP that it is built for
    git_version: str
    include_dirs: tuple[Path, ...]
    lib_dir: Path

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        return release_of(self.version) or (0, 0)

    @property
    def identity(self) -> str:
        """What must be equal for two of them to have the same private ABI; the path is not in it."""
        return f"torch {self.version} (git {self.git_version})"


def find_torch() -> TorchInstall:
    """Return the torch that `import torch` gives in this process, without importing it.

    Raises ToolchainError if there is none or its headers are missing, UnsupportedTorchError if it is older than 2.10.
    """
    root = _find_root()
    facts = _read_constants(root / "version.py")
    version = facts.get("__version__", "")
    if release_of(version) is None:
        raise ToolchainError(f"{root / 'version.py'} does not contain torch's version. {_INSTALL}")
    refuse_older(version, str(root))
    include = root / "include"
    if not (include / "torch" / "csrc").is_dir():
        raise ToolchainError(f"torch {version} in {root} does not include its headers ({include}). {_INSTALL}")
    return TorchInstall(
        root=root,
        version=version,
        cuda=facts.get("cuda"),
        hip=facts.get("hip"),
        git_version=facts.get("git_version") or "unknown",
        include_dirs=(include, include / "torch" / "csrc" / "api" / "include"),
        lib_dir=root / "lib",
    )


@functools.cache
def require_torch() -> None:
    """Raise UnsupportedTorchError if the torch that `import torch` gives is older than 2.10, without importing it.

    A torch that is missing or damaged passes: its import says so better.
    """
    try:
        root = _find_root()
    except ToolchainError:
        return
    version = getattr(sys.modules.get("torch"), "__version__", None) or installed_version(root.parent)
    if version is not None:
        refuse_older(version, str(root))


def installed_version(folder: Path) -> str | None:
    """Return the version of the torch in a folder of packages, or None if there is none that can be read."""
    try:
        return _read_constants(folder / "torch" / "version.py").get("__version__")
    except ToolchainError:
        return None


def _find_root() -> Path:
    # The torch of this process, where it is imported, may be another than the path now leads to.
    origin = getattr(sys.modules.get("torch"), "__file__", None)
    if origin is None:
        with suppress(ValueError):  # a module without a spec stands in torch's place
            origin = getattr(find_spec("torch"), "origin", None)
    if origin is None:
        raise ToolchainError(f"This Python ({sys.executable}) has no torch. {_INSTALL}")
    return Path(origin).absolute().parent


def _read_constants(path: Path) -> dict[str, str]:
    """Return the texts that a module assigns to names."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise ToolchainError(f"torch's {path} cannot be read: {error}. {_INSTALL}") from error
    constants = {}
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                constants[name] = text
    return constants
