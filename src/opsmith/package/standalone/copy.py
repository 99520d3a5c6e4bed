"""Copies opsmith's runtime into a wheel, so that its operators run where opsmith is not installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import opsmith
from opsmith._torch_release import MINIMUM_TORCH
from opsmith.errors import BuildError
from opsmith.package.standalone.imports import find_imports, with_imports_of
from opsmith.package.standalone.modules import DATA, FOLDER, NAMES, is_copied, module_files

__all__ = ["standalone_members"]

_ROOT = Path(opsmith.__file__).parent
_SOURCES = (".py", ".pyi")
# What opsmith requires in its turn, and an operator needs.
_TORCH = "torch>={}.{}".format(*MINIMUM_TORCH)
_JAXTYPING = "jaxtyping>=0.2.34"
_REQUIREMENT = re.compile(r"Requires-Dist: *([A-Za-z0-9][A-Za-z0-9._-]*)(.*)", re.IGNORECASE)


def standalone_members(members: Mapping[str, bytes], info: str, libraries: Iterable[str]) -> dict[str, bytes]:
    """Return a wheel's members with a copy of opsmith's runtime, and without the requirement of opsmith.

    `info` is the folder of its metadata, `libraries` are the paths of opsmith's libraries in it. A wheel that has the copy
    stays as it is. Raises BuildError if a library is not in a package, or a module imports what the copy does not have.
    """
    packages = sorted({_package_of(library, members) for library in libraries})
    if not packages or any(f"{packages[0]}/{FOLDER}/" in name for name in members):
        return dict(members)
    name, _, _ = info.partition("-")
    made = dict(members)
    needs_jaxtyping = False
    for member in members:
        if member.endswith(_SOURCES) and b"opsmith" in members[member]:
            made[member] = _own_module(member, members[member], _target(member, packages))
        needs_jaxtyping |= member.endswith(".py") and b"jaxtyping" in members[member]
    for package in packages:
        made |= _copy(package, name)
    text = members[f"{info}METADATA"].decode()
    made[f"{info}METADATA"] = _without_opsmith(text, needs_jaxtyping).encode()
    return made


def _package_of(library: str, members: Mapping[str, bytes]) -> str:
    """Return the outermost package that a library is in."""
    for folder in reversed(PurePosixPath(library).parents[:-1]):
        if f"{folder}/__init__.py" in members:
            return str(folder)
    raise BuildError(
        f"{library} is not in a package, and opsmith's runtime would lie beside other projects' modules: make a folder with "
        "an __init__.py of the module, or build without `standalone`"
    )


def _target(member: str, packages: list[str]) -> str:
    """Return the copy that a module imports: that of its own package, or the first."""
    own = next((package for package in packages if member.startswith(f"{package}/")), packages[0])
    return ".".join([*PurePosixPath(own).parts, FOLDER])


def _own_module(member: str, source: bytes, target: str) -> bytes:
    try:
        for line, module, name in find_imports(source):
            if not _is_offered(module, name):
                raise BuildError(
                    f"{member}, line {line}: it imports {module}{name and '.'}{name}, and a standalone wheel has what runs "
                    f"operators alone: {', '.join(sorted(NAMES))}. Take the import out, or build without `standalone`"
                )
        return with_imports_of(source, target)
    except SyntaxError as error:
        raise BuildError(f"{member} is not Python: {error}") from error


def _is_offered(module: str, name: str) -> bool:
    if module == "opsmith" and name:
        return name in NAMES or is_copied(f"opsmith.{name}")
    return is_copied(module)


def _copy(package: str, project: str) -> dict[str, bytes]:
    target = ".".join([*PurePosixPath(package).parts, FOLDER])
    files = {file: with_imports_of((_ROOT / file).read_bytes(), target) for file in module_files()}
    files |= {file: (_ROOT / file).read_bytes() for file in DATA}
    files["_standalone.py"] = files["_standalone.py"].replace(b'PROJECT = ""', f'PROJECT = "{project}"'.encode())
    files["LICENSE"] = _licence()
    return {f"{package}/{FOLDER}/{file}": data for file, data in files.items()}


def _licence() -> bytes:
    """Return opsmith's licence, from its metadata or from the checkout that it runs in."""
    try:
        found = distribution("opsmith").read_text("licenses/LICENSE")
    except PackageNotFoundError:
        found = None
    if found is not None:
        return found.encode()
    try:
        return (_ROOT.parent.parent / "LICENSE").read_bytes()
    except OSError as error:
        raise BuildError(f"the installation of opsmith in {_ROOT} has no licence file: install it again") from error


def _without_opsmith(metadata: str, needs_jaxtyping: bool) -> str:
    """Return metadata that requires what opsmith would have required in its turn, in place of opsmith."""
    head, blank, body = metadata.partition("\n\n")
    lines = head.splitlines()
    found = [(line, match) for line in lines if (match := _REQUIREMENT.match(line))]
    rest = {_canonical(match[1]): match[2].strip() for _, match in found}
    added = [] if rest.get("torch") else [_TORCH]
    if needs_jaxtyping and "jaxtyping" not in rest:
        added.append(_JAXTYPING)
    # A `torch` of any version is replaced: opsmith would have said which.
    dropped = [
        line
        for line, match in found
        if _canonical(match[1]) == "opsmith" or (_canonical(match[1]), match[2].strip()) == ("torch", "")
    ]
    kept = [line for line in lines if line not in dropped]
    return "\n".join([*kept, *(f"Requires-Dist: {text}" for text in added)]) + (blank or "\n") + body


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
