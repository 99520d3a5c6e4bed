"""Failure modes of torch.utils.cpp_extension 2.13 that the drop-in must not have; each test says what PyTorch does.

Further ones have tests beside what prevents them: races and killed builds in tests/store, memory and jobs in tests/build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import opsmith
from opsmith import cpp_extension
from opsmith.build import target
from opsmith.cpp_extension import CppExtension, load, load_inline
from opsmith.errors import CompileError, LoadError, ToolchainError
from opsmith.toolchain import Toolchain, find_torch

from .conftest import MODULE


def python(code: str, **variables: str) -> str:
    path = os.pathsep.join([str(Path(opsmith.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.compile
def test_4_failed_build_is_tried_again(module: Path) -> None:
    """PyTorch counts the version up before it builds, so that a second try in a notebook skips the build."""
    module.write_text(MODULE.replace("VALUE + EXTRA", "MISSING"))
    for _ in range(2):
        with pytest.raises(CompileError, match="MISSING"):
            load("mode4", [module])
    module.write_text(MODULE)
    assert load("mode4", [module]).value() == 1


@pytest.mark.compile
def test_5_edited_header_is_noticed_in_the_same_process(module: Path) -> None:
    """PyTorch looks at the main sources alone, and returns the module of the old header."""
    assert load("mode5", [module]).value() == 1
    module.with_name("value.h").write_text("#define VALUE 2\n")
    assert load("mode5", [module]).value() == 2


@pytest.mark.compile
def test_7_variables_that_compilers_read_are_noticed(module: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """PyTorch notices no variable within a process, and across processes only what changes a command line."""
    module.with_name("value.h").unlink()
    for value in (1, 2):
        (tmp_path / str(value)).mkdir()
        (tmp_path / str(value) / "value.h").write_text(f"#define VALUE {value}\n")
        monkeypatch.setenv("CPATH", str(tmp_path / str(value)))
        assert load("mode7", [module]).value() == value


@pytest.mark.compile
def test_8_finished_library_needs_neither_compiler_nor_ninja(module: Path) -> None:
    """PyTorch asks for ninja, a compiler and nvcc before it looks for the finished library."""
    load("mode8", [module])
    code = f"import opsmith.cpp_extension as c; print(c.load('mode8', [{str(module)!r}]).value())"
    # The compiler's identity is known from before; not one program is started.
    guard = "import sys; sys.addaudithook(lambda e, a: sys.exit(e) if e in ('subprocess.Popen', 'os.fork') else None)\n"
    assert python("import torch\n" + guard + code) == "1"


@pytest.mark.compile
def test_9_two_sources_of_one_name_do_not_meet(module: Path, tmp_path: Path) -> None:
    """PyTorch's JIT gives a/part.cpp and b/part.cpp one object file."""
    text = MODULE.replace("VALUE + EXTRA", "a() * 10 + b()")
    module.write_text(text.replace("#include <Python.h>", "#include <Python.h>\nint a(); int b();"))
    for index, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.cpp").write_text(f"int {name}() {{ return {index + 1}; }}\n")
    assert load("mode9", [module, tmp_path / "a" / "part.cpp", tmp_path / "b" / "part.cpp"]).value() == 12


@pytest.mark.compile
def test_10_extensions_built_at_once_do_not_meet(tmp_path: Path) -> None:
    """PyTorch's build_ext -j writes the build.ninja of several extensions into one folder; tests of the command: there."""
    results: dict[int, int] = {}

    def build(value: int) -> None:
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "value.h").write_text(f"#define VALUE {value}\n")
        (folder / "module.cpp").write_text(MODULE)
        results[value] = load(f"mode10_{value}", [folder / "module.cpp"]).value()

    threads = [threading.Thread(target=build, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {value: value for value in range(4)}


def test_11_mismatch_of_cuda_is_told_in_a_formed_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch shows ('The detected CUDA version (%s) ...', '13.0', '12.8'), and in its JIT checks nothing."""
    from dataclasses import replace

    import opsmith.toolchain
    from opsmith.toolchain import CudaCompiler, find_host_compiler

    def toolchain(version: str) -> Toolchain:
        nvcc = CudaCompiler(Path("/c/bin/nvcc"), Path("/c"), version, "", Path("/c"), find_host_compiler(), (), None)
        return Toolchain(find_host_compiler(), replace(find_torch(), cuda="12.8"), nvcc)

    monkeypatch.delenv("OPSMITH_SKIP_CUDA_CHECK", raising=False)
    monkeypatch.setattr(opsmith.toolchain, "find_toolchain", lambda **kinds: toolchain("13.0.88"), raising=False)
    said = r"is built for CUDA 12\.8, but nvcc is 13\.0\.88 \(/c/bin/nvcc\)\. .*set CUDA_HOME"
    with pytest.raises(RuntimeError, match=said):
        cpp_extension._check_cuda_version("c++", "12.2.0")
    # A build by plan, JIT and setuptools alike, makes the same check.
    monkeypatch.setattr(target, "find_toolchain", lambda **kinds: toolchain("13.0.88"))
    with pytest.raises(ToolchainError, match="built for CUDA 12"):
        target.choose_toolchain(gpu=True)
    monkeypatch.setenv("OPSMITH_SKIP_CUDA_CHECK", "1")
    cpp_extension._check_cuda_version("c++", "12.2.0")
    monkeypatch.delenv("OPSMITH_SKIP_CUDA_CHECK")
    monkeypatch.setattr(opsmith.toolchain, "find_toolchain", lambda **kinds: toolchain("12.1.0"), raising=False)
    cpp_extension._check_cuda_version("c++", "12.2.0")  # minor versions go together


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPSMITH_CUDA_ARCHS", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(target, "_native_cuda", lambda: ())
    from opsmith.cpp_extension import flags

    # What nvcc 13 compiles for; 10.1 was the name of 11.0 before.
    supported = ("7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "10.0", "10.1", "10.3", "11.0", "12.0", "12.1")
    monkeypatch.setattr(flags, "_supported", lambda: supported)
    return monkeypatch


@pytest.mark.parametrize("value", [None, "native", " Native "])
def test_13_build_without_a_gpu_has_a_default(no_gpu: pytest.MonkeyPatch, value: str | None) -> None:
    """PyTorch raises IndexError: list index out of range."""
    if value is not None:
        no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    flags = cpp_extension._get_cuda_arch_flags()
    assert "-gencode=arch=compute_90,code=compute_90" in flags  # PTX for what is newer
    assert "-gencode=arch=compute_80,code=sm_80" in flags


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10.0f", ["-gencode=arch=compute_100f,code=sm_100f"]),
        ("12.0f", ["-gencode=arch=compute_120f,code=sm_120f"]),
        ("10.1", ["-gencode=arch=compute_101,code=sm_101"]),
        ("8.8", ["-gencode=arch=compute_88,code=sm_88"]),
        ("9.0a+PTX", ["-gencode=arch=compute_90a,code=compute_90a", "-gencode=arch=compute_90a,code=sm_90a"]),
        ("8.0 8.6", ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_86,code=sm_86"]),
        ("Ampere+Tegra", ["-gencode=arch=compute_87,code=sm_87"]),
        ("Hopper", ["-gencode=arch=compute_90,code=compute_90", "-gencode=arch=compute_90,code=sm_90"]),
    ],
)
def test_14_new_architectures_are_known(no_gpu: pytest.MonkeyPatch, value: str, expected: list[str]) -> None:
    """PyTorch has a list in its source, and raises ValueError for what is newer."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    assert cpp_extension._get_cuda_arch_flags() == expected


@pytest.mark.parametrize("value", ["All", "Common"])
def test_14_words_of_cmake_are_known(no_gpu: pytest.MonkeyPatch, value: str) -> None:
    """PyTorch raises ValueError for them."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", value)
    flags = cpp_extension._get_cuda_arch_flags()
    assert {"-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"} <= set(flags)
    assert sum("code=compute_" in flag for flag in flags) == 1


def test_14_word_without_meaning_is_a_value_error_that_says_what_to_write(no_gpu: pytest.MonkeyPatch) -> None:
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "nine")
    with pytest.raises(ValueError, match=r"'nine' is no CUDA architecture\. Write them like"):
        cpp_extension._get_cuda_arch_flags()


@pytest.mark.parametrize("flag", ["-I/home/me/research/include", "-DSEARCH=1", "-march=native", "--archive"])
def test_15_flag_that_only_contains_arch_keeps_the_architectures(no_gpu: pytest.MonkeyPatch, flag: str) -> None:
    """PyTorch compiles for nvcc's default then, whatever TORCH_CUDA_ARCH_LIST says."""
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    assert cpp_extension._get_cuda_arch_flags([flag]) == ["-gencode=arch=compute_90,code=sm_90"]


@pytest.mark.parametrize(
    "flag", ["-arch=sm_80", "-gencode=arch=compute_80,code=sm_80", "--gpu-architecture=sm_80", "-gencode", "-arch"]
)
def test_15_users_own_architectures_replace_ours(no_gpu: pytest.MonkeyPatch, flag: str) -> None:
    no_gpu.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    assert cpp_extension._get_cuda_arch_flags(["-O3", flag]) == []


def test_18_missing_build_directory_is_made(module: Path, tmp_path: Path) -> None:
    """PyTorch raises FileNotFoundError: .../lock."""
    folder = tmp_path / "not" / "there"
    loaded = load("mode18", [module], build_directory=folder)
    assert loaded.value() == 1
    assert (folder / "mode18.so").is_file()  # where those look who know PyTorch's way


def test_19_no_precompiled_header_lies_in_torchs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch writes 785 MB into site-packages for use_pch, and another load_inline deletes them."""
    texts = [MODULE.replace('#include "value.h"', "#define VALUE 5")]
    assert load_inline("mode19", texts, no_implicit_headers=True, use_pch=True).value() == 5
    assert not list((Path(torch.__file__).parent / "include" / "torch").glob("extension.h.*"))


@pytest.mark.compile
def test_20_arguments_stay_as_they_are(module: Path) -> None:
    """PyTorch adds its own to lists of the caller: the second use of cpp_sources is a redefinition of PyInit_."""
    texts = [MODULE.replace('#include "value.h"', "#define VALUE 7")]
    link, folders = ["-Wl,--as-needed"], [str(module.parent)]
    for name in ("mode20_a", "mode20_b"):
        made = load_inline(name, texts, no_implicit_headers=True, extra_ldflags=link, extra_include_paths=folders)
        assert made.value() == 7
    CppExtension("x", ["a.cpp"], include_dirs=folders, extra_link_args=link)
    assert (len(texts), link, folders) == (1, ["-Wl,--as-needed"], [str(module.parent)])


@pytest.mark.compile
@pytest.mark.parametrize("written", ["$ORIGIN", "$$ORIGIN", "'$ORIGIN'"])
def test_21_origin_reaches_the_linker(module: Path, written: str) -> None:
    """PyTorch gives $ORIGIN to ninja and a shell, so that the library looks in /lib; $$ORIGIN was the way out."""
    library = load("mode21", [module], extra_ldflags=[f"-Wl,-rpath,{written}/lib"], is_python_module=False)
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "[$ORIGIN/lib]" in shown


def test_22_any_text_can_be_a_docstring() -> None:
    """PyTorch pastes it into C++ as it is: a quote ends the literal. A compiled test is in tests/runtime."""
    from opsmith.build.inline import inline_sources

    (source,) = inline_sources([""], [], {"f": 'a "quote",\na line, C:\\ and ü'})
    assert source.text is not None
    assert r"a \042quote\042,\012a line, C:\134 and \303\274" in source.text


@pytest.mark.compile
def test_23_edited_operator_is_loaded_again_in_one_process() -> None:
    """PyTorch's second load ends the process: no exception, no notebook. More in tests/runtime/test_existing.py."""
    text = """
        #include <torch/csrc/stable/library.h>
        static int64_t f(int64_t x) { return x + STEP; }
        STABLE_TORCH_LIBRARY(mode23, m) { m.def("f(int x) -> int"); }
        STABLE_TORCH_LIBRARY_IMPL(mode23, CompositeExplicitAutograd, m) { m.impl("f", TORCH_BOX(&f)); }
    """
    for step in (1, 2, 3, 1):
        code = text.replace("STEP", str(step))
        load_inline("mode23", code, is_python_module=False, no_implicit_headers=True)
        assert torch.ops.mode23.f(1) == 1 + step


@pytest.mark.compile
def test_24_undefined_symbol_is_named_as_in_the_source_with_what_to_do() -> None:
    """PyTorch passes the loader's words on: undefined symbol: _Z9elsewherei."""
    text = "int elsewhere(int); int here() { return elsewhere(1); }"
    with pytest.raises(LoadError, match=r"nothing defines elsewhere\(int\)(?s:.*)Add the source that defines it"):
        load_inline("mode24", text, no_implicit_headers=True, is_python_module=False)


def test_25_clang_is_held_to_clangs_minimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch compares clang's version with GCC's minimum, and only ever warns."""
    for version, fits in (("14.0.6", True), ("6.0.1", False)):
        program = tmp_path / f"clang-{version}"
        program.write_text(f"#!/bin/sh\necho 'Debian clang version {version}'\necho 'Target: x86_64-pc-linux-gnu'\n")
        program.chmod(0o755)
        compatible, found = cpp_extension.get_compiler_abi_compatibility_and_version(str(program))
        assert compatible is fits
        assert str(found) == (version if fits else "0.0.0")
        assert not cpp_extension.check_compiler_is_gcc(str(program))
    monkeypatch.setenv("TORCH_DONT_CHECK_COMPILER_ABI", "1")
    assert cpp_extension.get_compiler_abi_compatibility_and_version("nothing")[0]


@pytest.mark.compile
def test_26_load_needs_no_setuptools(module: Path) -> None:
    """PyTorch imports setuptools for everything."""
    code = f"""
import sys
sys.modules["setuptools"] = None  # any import of it raises
from opsmith.cpp_extension import load
print(load("mode26", [{str(module)!r}]).value())
"""
    assert python(code) == "1"


@pytest.mark.compile
def test_program_is_built_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text('#include <cstdio>\n#include <cstdlib>\nint main() { std::puts(std::getenv("WHO")); }\n')
    path = load("hello", str(source), is_python_module=False, is_standalone=True)
    assert subprocess.run([path], env={"WHO": "world"}, capture_output=True, text=True, check=True).stdout == "world\n"
    path = load("hello", source, is_python_module=False, is_standalone=True, build_directory=tmp_path / "b")
    assert path == str(tmp_path / "b" / "hello")
    assert os.access(path, os.X_OK)
