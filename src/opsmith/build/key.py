"""Collects what a build's result depends on, apart from the headers that only the compiler finds: the source key's inputs.

What differs between machines by path alone is replaced by a name, so that two checkouts find the same artefact.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from opsmith import _env
from opsmith.build.ahead.step import COMPILER
from opsmith.build.linked import linked_files
from opsmith.build.plan import Plan, Target
from opsmith.spec.extension import ExistingSources, Extension
from opsmith.store import digest, digest_file
from opsmith.toolchain import Toolchain
from opsmith.toolchain.processor import asks_for_native, processor_identity

__all__ = ["compiler_environment", "key_inputs"]

# Where a path can begin in a word of a command, be it right after a flag (-I/home/...), and where a folder's name ends.
_BEFORE_PATH, _FLAG, _AFTER_NAME = r"^|[\s=,:;\"'\\]", r"-{1,2}\w+|@", r"$|[\s=,:;\"'\\/]"


def key_inputs(plan: Plan, toolchain: Toolchain, target: Target) -> dict[str, str]:
    """Return what the source key covers: a name and a digest for everything known before compiling."""
    inputs = {f"generated {name}": digest(text) for name, text in sorted(plan.files.items())}
    for user in sorted({user for step in plan.steps for user in step.users}):
        inputs[f"source {_portable(str(user), plan.roots)}"] = digest_file(user)
    for step in plan.steps:
        inputs[f"command {step.output}"] = digest(*_portable_command(step.argv, plan.roots, toolchain))
    for role, identity in toolchain.compilers.items():
        inputs[f"compiler {role}"] = digest(identity)
    if toolchain.compiles_ahead:
        inputs["kernel compiler"] = digest(*map(digest_file, sorted(COMPILER.rglob("*.py"))))
    if asks_for_native(word for step in plan.steps for word in step.argv):
        inputs["processor"] = digest(processor_identity())
    if variables := compiler_environment():
        inputs["environment"] = digest(*variables)
    inputs["archs"] = digest(*target.archs)
    inputs["library"] = digest(plan.library)
    if plan.extension.api == "full":
        # Only such a binary depends on torch's version; a stable one is the same for every torch.
        inputs["torch"] = digest(toolchain.torch.version, toolchain.torch.git_version)
        inputs["python"] = digest(plan.python_abi or "")
    for file in _linked(plan.extension, toolchain.torch.root):
        inputs[f"linked {_portable(str(file), plan.roots)}"] = digest_file(file)
    return inputs


def _linked(extension: Extension, torch_root: Path) -> tuple[Path, ...]:
    if not isinstance(extension, ExistingSources):
        return linked_files(extension.link_flags, torch_root)
    libraries, folders = extension.libraries or (), extension.library_dirs
    return linked_files(extension.link_flags, torch_root, libraries=libraries, library_dirs=folders)


def compiler_environment() -> tuple[str, ...]:
    """Return what compilers read from the environment by themselves, as `NAME=value`."""
    names = [variable.name for variable in _env.VARIABLES if variable.role == "compiler"]
    return tuple(f"{name}={value}" for name in names if (value := _env.read(name)) is not None)


def _portable(text: str, roots: Mapping[str, Path]) -> str:
    """Return a word of a command with the names of roots in place of their paths, where a path begins with one.

    /work/src is not the beginning of /work/src_include, whose headers are looked up by their whole path.
    """
    for name, root in sorted(roots.items(), key=lambda item: -len(str(item[1]))):
        if str(root) in text:
            path = rf"({_BEFORE_PATH})({_FLAG})?{re.escape(str(root))}(?={_AFTER_NAME})"
            text = re.sub(path, lambda found, name=name: f"{found[1]}{found[2] or ''}<{name}>", text)  # type: ignore[misc]
    return text


def _portable_command(argv: tuple[str, ...], roots: Mapping[str, Path], toolchain: Toolchain) -> list[str]:
    """Return a command without the places where its tools and folders happen to lie on this machine."""
    folders = dict(roots)
    tools = {"host": toolchain.host.path}
    if toolchain.compiles_ahead:
        tools |= {"python": Path(sys.executable), "kernel compiler": COMPILER}
    if toolchain.nvrtc is not None:
        tools["nvrtc"] = toolchain.nvrtc.library
        folders |= {f"nvrtc headers {i}": folder for i, folder in enumerate(toolchain.nvrtc.includes)}
    if toolchain.cuda is not None:
        tools |= {"nvcc": toolchain.cuda.nvcc, "cuda host": toolchain.cuda.host.path}
        folders["cuda"] = toolchain.cuda.root
        folders |= {f"cuda wheel {i}": folder for i, folder in enumerate(toolchain.cuda.wheel_includes)}
    if toolchain.rocm is not None:
        tools["hipcc"] = toolchain.rocm.hipcc
        folders["rocm"] = toolchain.rocm.root
    named = {str(path): f"<{name}>" for name, path in tools.items()}
    return [named.get(word) or _portable(word, folders) for word in argv]
