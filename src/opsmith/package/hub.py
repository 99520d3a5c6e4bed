"""Writes an operator's sources as Hugging Face's kernel-builder takes them: the binding, the kernels and the headers.

kernel-builder compiles them itself, for each backend, under a namespace that is unique to a commit: several versions of a
kernel are loaded side by side. The definition stays behind, for what the Hub loads may import torch alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsmith.build.export import replace_file
from opsmith.build.plan import INCLUDE_DIR, TORCH_TARGET
from opsmith.codegen.extension import assemble
from opsmith.errors import ArgumentError, DefinitionError
from opsmith.spec.definition import AHEAD, DEVICES, Device, Group
from opsmith.spec.extension import Source

__all__ = ["MARK", "write_hub"]

# What stands above it in build.toml is the project's.
MARK = "# The rest is written by `opsmith hub`."

_SOURCES = "csrc"
_BINDING = "torch-ext/torch_binding.cpp"
_LICENCE = "// From opsmith. SPDX-License-Identifier: Apache-2.0\n"
_HEADERS = frozenset({".h", ".hpp", ".cuh"})
_FLAGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "cpu": {"cxx-flags": ["-O3", "-fno-math-errno", "-fno-trapping-math"]},
}
# `Library in_smooth{"smooth", ...`, as codegen/binding.py writes it.
_NAMESPACE = re.compile(r'(Library \w+\{)"\w+"')


def write_hub(group: Group, folder: Path) -> list[str]:
    """Write the sources of a module's operators below a folder with a build.toml; return the paths within it.

    Sources of an earlier call that are no longer needed are removed. Raises ArgumentError if the folder has no build.toml
    with the line MARK, and DefinitionError if no operator has a kernel.
    """
    build = folder / "build.toml"
    own, mark, _ = (build.read_text(encoding="utf-8") if build.is_file() else "").partition(MARK)
    if not mark:
        raise ArgumentError(
            f"{build} has no line `{MARK}`: `opsmith new NAME --recipe kernels` makes such a file, with the [general] table "
            "above that line"
        )
    devices = [device for device in DEVICES if any(device in item.kernels for item in group.definitions)]
    if not devices:
        raise DefinitionError(f"{group.module} has no kernels: its operators are PyTorch alone, and need no build")
    headers = dict(_headers(group.file.parent))
    built = [_built(group, device) for device in devices]
    bindings = {item.binding: item.binding_text for item in built}
    tables = [
        _table("torch", src=[_BINDING, *bindings, *headers], include=[_SOURCES]),
        _table("torch.stable-abi", **dict.fromkeys(devices, "{}.{}".format(*TORCH_TARGET))),
        *(item.table([*item.kernels, *headers]) for item in built),
    ]
    texts = {_BINDING: _dispatch(devices), **headers, **bindings}
    for item in built:
        texts |= item.kernels
    texts["build.toml"] = "\n".join([f"{own}{MARK}", "", *tables])
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / path, text.encode(), mode=0o644)
    for left in (folder / _SOURCES).rglob("*"):
        if left.is_file() and left.relative_to(folder).as_posix() not in texts:
            left.unlink()
    return sorted(texts)


@dataclass(frozen=True)
class _Built:
    """What kernel-builder compiles for one backend: the texts of the binding and of the kernels, these by their paths."""

    name: str
    device: Device
    binding_text: str
    kernels: Mapping[str, str]

    @property
    def binding(self) -> str:
        return f"{_SOURCES}/binding_{self.device}.h"

    def table(self, sources: Sequence[str]) -> str:
        return _table(
            f"kernel.{self.name}_{self.device}",
            backend=self.device,
            depends=["torch"],
            include=[_SOURCES],
            src=sources,
            **_FLAGS.get(self.device, {}),
        )


def _built(group: Group, device: Device) -> _Built:
    binding, *kernels = assemble(group.module, group.definitions, (device,)).sources
    if any(source.language in AHEAD for source in kernels):
        raise DefinitionError(
            f"{group.module} has kernels of opsmith.triton, opsmith.kernel or opsmith.cute, which kernel-builder does not "
            "compile ahead. Build its wheel with `opsmith wheel`, or leave these operators out of the module"
        )
    texts = {f"{_SOURCES}/{source.name}": _whole(source, group.file.parent) for source in kernels}
    return _Built(group.module.rpartition(".")[2], device, _renamed(binding), texts)


def _headers(root: Path) -> Iterator[tuple[str, str]]:
    """Yield opsmith's headers, with their licence, and the package's own, which the kernels include."""
    for folder, prefix, head in ((INCLUDE_DIR / "opsmith", f"{_SOURCES}/opsmith", _LICENCE), (root, _SOURCES, "")):
        for path in sorted(folder.rglob("*")):
            if path.suffix in _HEADERS and path.is_file():
                yield f"{prefix}/{path.relative_to(folder).as_posix()}", head + path.read_text(encoding="utf-8")


def _renamed(binding: Source) -> str:
    """Return a binding that registers its operators in the namespace of the build."""
    text, count = _NAMESPACE.subn(r"\1OPSMITH_NAMESPACE", binding.text or "")
    assert count, "the binding registers nothing"
    return text


def _whole(source: Source, root: Path) -> str:
    """Return a source with the user's file in it: as a file of its own, kernel-builder would compile that as well."""
    if source.text is None:
        assert source.path is not None
        return source.path.read_text(encoding="utf-8")
    text = source.text
    for user in source.users:
        line = f'#include "{os.path.relpath(user, root)}"\n'
        assert line in text, f"{source.name} does not include {user}"
        text = text.replace(line, user.read_text(encoding="utf-8"), 1)
    return text


def _dispatch(devices: Iterable[Device]) -> str:
    """Return the source that kernel-builder compiles for each backend, with the backend's binding."""
    lines = [
        "// Generated by opsmith; do not edit.",
        '#include "registration.h"',
        "",
        "#define OPSMITH_NAMESPACE STRINGIFY(TORCH_EXTENSION_NAME)",
        "",
    ]
    for index, device in enumerate(devices):
        macro = {"cpu": "CPU_KERNEL", "cuda": "CUDA_KERNEL"}[device]
        lines += [f"#{'elif' if index else 'if'} defined({macro})", f'#include "binding_{device}.h"']
    return "\n".join([*lines, "#endif", "", "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)", ""])


def _table(name: str, **values: str | Sequence[str]) -> str:
    """Return a table of TOML, whose texts and lists of texts are written as JSON's are."""
    lines = [f"[{name}]"]
    for key, value in values.items():
        if isinstance(value, str):
            lines.append(f"{key} = {json.dumps(value)}")
        else:
            lines += [f"{key} = [", *(f"  {json.dumps(item)}," for item in value), "]"]
    return "\n".join([*lines, ""])
