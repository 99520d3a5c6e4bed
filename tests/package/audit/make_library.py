"""Makes small shared libraries for the audit's tests, without headers or libraries of torch, Python, CUDA or the system.

An undefined symbol is a declaration that is called, and a library that is needed is an empty one of that name, whose
symbols may have versions.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import pytest

from compilers import find_compiler

# The functions of torch's C ABI that an operator of opsmith cannot do without.
SHIMS = ("aoti_torch_library_def", "aoti_torch_library_init_fragment", "torch_library_impl", "aoti_torch_get_sizes")
SCHEMA = "lowpass(Tensor x, float alpha) -> Tensor"

Stub = tuple[str, str, tuple[str, ...]]  # name, version of its symbols (or nothing), symbols


@functools.cache
def library(
    *,
    calls: tuple[str, ...] = SHIMS,
    texts: tuple[str, ...] = (SCHEMA, "smooth::lowpass"),
    stubs: tuple[Stub, ...] = (("libtorch_cpu.so", "", ()),),
    flags: tuple[str, ...] = (),
    code: str = "",
) -> bytes:
    """Return the bytes of a library that calls functions, contains texts and needs other libraries."""
    lines = [f"extern void {name}(void);" for name in calls]
    lines += [f'__attribute__((used)) const char text_{number}[] = "{text}";' for number, text in enumerate(texts)]
    lines += ["void opsmith_test_entry(void) {", *(f"  {name}();" for name in calls), "}", code]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        linked = [str(_stub(root, *stub)) for stub in stubs]
        source = root / "binding.c"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _gcc(root, "-o", "_ops.so", source.name, "-Wl,--no-as-needed", *linked, *flags)
        return (root / "_ops.so").read_bytes()


def _stub(root: Path, name: str, version: str, symbols: tuple[str, ...]) -> Path:
    source = root / f"{name}.c"
    source.write_text("".join(f"void {symbol}(void) {{}}\n" for symbol in symbols), encoding="utf-8")
    flags = [f"-Wl,-soname,{name}"]
    if version:
        script = root / f"{name}.map"
        script.write_text(f"{version} {{ global: *; }};\n", encoding="utf-8")
        flags.append(f"-Wl,--version-script={script.name}")
    _gcc(root, "-o", name, source.name, *flags)
    return root / name


def _gcc(root: Path, *words: str) -> None:
    command = [find_compiler("gcc"), "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{command}\n{done.stderr}")
