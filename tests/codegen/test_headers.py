"""The headers of a binding: torch's C functions are declared as torch declares them, and no other header is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers import compiled, find_compiler
from opsmith.build.plan import INCLUDE_DIR
from opsmith.toolchain import find_torch

pytestmark = pytest.mark.compile

EXPECTED = Path(__file__).with_name("expected")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# In an order in which no header could lean on one before it.
HEADERS = [
    "shims.h",
    "torch_error.h",
    "held.h",
    "arguments.h",
    "sizes.h",
    "checks.h",
    "layout.h",
    "running.h",
    "stream.h",
    "binding.h",
]


@pytest.fixture(params=["g++", pytest.param("clang++", marks=pytest.mark.nightly("a second compiler"))])
def compiler(request: pytest.FixtureRequest) -> str:
    return find_compiler(request.param)


def compile_text(compiler: str, text: str, folder: Path, *flags: str) -> None:
    """Compile a text, which fails the test where there is as much as a warning."""
    source = folder / "source.cpp"
    source.write_text(text)
    compiled(source, compiler, *WARNINGS, *flags, f"-I{INCLUDE_DIR}", "-c")


def torch_flags() -> list[str]:
    """Return what a source that includes torch's stable headers is compiled with."""
    folders = [flag for folder in find_torch().include_dirs for flag in ("-isystem", str(folder))]
    return ["-DTORCH_TARGET_VERSION=0x020a000000000000", "-std=c++20", *folders]


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_each_header_compiles_by_itself_and_without_torch(standard: str, compiler: str, tmp_path: Path) -> None:
    for header in HEADERS:
        compile_text(compiler, f"#include <opsmith/{header}>\n", tmp_path, f"-std={standard}", "-fsyntax-only")


@pytest.mark.parametrize("order", [("torch", "ours"), ("ours", "torch")])
def test_declarations_are_torchs_own(order: tuple[str, str], compiler: str, tmp_path: Path) -> None:
    # Two declarations of one C function that differ are an error. One that torch does not have would be none, so each
    # is also taken from torch's headers alone.
    headers = {
        "torch": "#include <torch/csrc/inductor/aoti_torch/c/shim.h>\n#include <torch/csrc/stable/c/shim.h>\n",
        "ours": "#include <opsmith/shims.h>\n",
    }
    text = "".join(headers[name] for name in order)
    compile_text(compiler, text, tmp_path, *torch_flags(), "-fsyntax-only")
    names = [
        word.partition("(")[0]
        for line in (INCLUDE_DIR / "opsmith/shims.h").read_text().splitlines()
        if line.startswith(("int32_t ", "AOTITorchError "))
        for word in [line.split()[1]]
    ]
    assert len(names) > 30
    uses = "\n".join(f"auto* const use{index} = &{name};" for index, name in enumerate(names))
    compile_text(compiler, headers["torch"] + uses, tmp_path, *torch_flags(), "-fsyntax-only", "-Wno-unused")


@pytest.mark.parametrize("name", ["pooled", "blend"])
def test_bindings_of_view_kernels_compile_without_torch(name: str, compiler: str, tmp_path: Path) -> None:
    compile_text(compiler, (EXPECTED / f"{name}.binding.cpp").read_text(), tmp_path, "-std=c++17", "-O2")


@pytest.mark.parametrize("name", ["kept", "gained_backward"])
def test_bindings_of_native_kernels_compile_with_torch(name: str, compiler: str, tmp_path: Path) -> None:
    flags = [*torch_flags(), "-O2"]
    compile_text(compiler, (EXPECTED / f"{name}.binding.cpp").read_text(), tmp_path, *flags)
