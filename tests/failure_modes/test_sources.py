"""Sources, arguments and folders: what the caller gives is taken as it is, and nobody else's files are touched.
(#9, #18 to #22)

Further: `.cpp` and `.cu` of one stem in tests/cpp_extension/test_extensions.py, homes that cannot be written in
tests/store/test_locate.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import MODULE, Tool, TorchCopy

pytestmark = pytest.mark.compile


def inline(value: int) -> str:
    return MODULE.replace('#include "value.h"', f"#define VALUE {value}")


@pytest.mark.torch_fails(by=RuntimeError)
def test_9_two_sources_of_one_name_do_not_meet(tool: Tool, module: Path, tmp_path: Path) -> None:
    """PyTorch's JIT gives a/part.cpp and b/part.cpp one object file."""
    text = MODULE.replace("(VALUE)", "(a() * 10 + b())")
    module.write_text(text.replace("#include <Python.h>", "#include <Python.h>\nint a(); int b();"))
    for index, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.cpp").write_text(f"int {name}() {{ return {index + 1}; }}\n")
    sources = [str(path) for path in (module, tmp_path / "a" / "part.cpp", tmp_path / "b" / "part.cpp")]
    assert tool.api.load("mode9", sources).value() == 12


@pytest.mark.torch_fails(by=FileNotFoundError)
def test_18_missing_build_directory_is_made(tool: Tool, module: Path, tmp_path: Path) -> None:
    """PyTorch raises FileNotFoundError: .../lock."""
    folder = tmp_path / "not" / "there"
    assert tool.api.load("mode18", [str(module)], build_directory=str(folder)).value() == 1
    assert (folder / "mode18.so").is_file()  # where those look who know PyTorch's way


@pytest.mark.torch_fails(by=AssertionError)
def test_18_home_that_cannot_be_written_stops_no_build(tool: Tool, module: Path, tmp_path: Path) -> None:
    """PyTorch raises NotADirectoryError, PermissionError or OSError (read-only) from os.makedirs."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").touch()
    nowhere = dict.fromkeys(("OPSMITH_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"))
    code = f"print(tool.load('mode18', [{str(module)!r}]).value())"
    # Not even root can write there.
    assert tool.run(code, HOME=str(tmp_path / "file" / "home"), TMPDIR=str(tmp_path / "temporary"), **nowhere) == "1"


@pytest.mark.slow("PyTorch compiles torch/extension.h")
@pytest.mark.torch_fails(by=AssertionError)
def test_19_no_precompiled_header_lies_in_torchs_folder(tool: Tool, torch_copy: TorchCopy) -> None:
    """PyTorch writes 785 MB into site-packages for use_pch, and another load_inline deletes them."""
    before = sorted(path.name for path in torch_copy.headers.iterdir())
    ask = f"print(tool.load_inline('mode19', [{inline(5)!r}], no_implicit_headers=True, use_pch=True).value())"
    assert tool.run(ask, site=torch_copy.site) == "5"
    assert sorted(path.name for path in torch_copy.headers.iterdir()) == before


@pytest.mark.torch_fails(by=AssertionError)
def test_20_lists_of_the_caller_stay_as_they_are(tool: Tool) -> None:
    """PyTorch adds its own to them: the second use of cpp_sources is a redefinition of PyInit_, extra_ldflags grows."""
    texts, link, folders = ['#include "x.h"\n'], ["-Wl,--as-needed"], ["/some/include"]
    tool.api.CppExtension("x", ["a.cpp"], include_dirs=folders, extra_link_args=link)
    for name in ("mode20_a", "mode20_b"):
        with pytest.raises(RuntimeError, match=r"x\.h"):
            tool.api.load_inline(name, texts, functions=["f"], extra_ldflags=link, no_implicit_headers=True)
    assert (len(texts), link, folders) == (1, ["-Wl,--as-needed"], ["/some/include"])


@pytest.mark.torch_fails(by=AssertionError)
@pytest.mark.parametrize("written", ["$ORIGIN", "$$ORIGIN", "'$ORIGIN'"])
def test_21_origin_reaches_the_linker(tool: Tool, module: Path, written: str) -> None:
    """PyTorch gives $ORIGIN to ninja and a shell, so that the library looks in /lib."""
    library = tool.api.load(
        "mode21", [str(module)], extra_ldflags=[f"-Wl,-rpath,{written}/lib"], is_python_module=False
    )
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "[$ORIGIN/lib]" in shown


@pytest.mark.torch_fails(by=RuntimeError)
@pytest.mark.nightly("builds with PyTorch and opsmith; test_existing.py has the texts")
def test_22_any_text_can_be_a_docstring(tool: Tool) -> None:
    """PyTorch pastes it into C++ as it is: a quote ends the literal."""
    doc = 'a "quote",\na line, C:\\ and ü'
    text = "#include <pybind11/pybind11.h>\nint f() { return 1; }"
    arguments: Any = {"no_implicit_headers": True, "with_pytorch_error_handling": False}
    made = tool.api.load_inline("mode22", [text], functions={"f": doc}, **arguments)
    assert doc in made.f.__doc__
