"""What is built again, and what is not: what decides a binary is noticed, whatever process asks. (#4 to #8)

Further: what a key covers in tests/runtime/test_existing.py, a compiler that is replaced in its place in
tests/build/test_shortcut.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import MODULE, Tool, TorchCopy

pytestmark = pytest.mark.compile


@pytest.mark.torch_fails(by=ImportError)
def test_4_failed_build_is_tried_again(tool: Tool, module: Path) -> None:
    """PyTorch counts the version up before it builds, so that a second try in a notebook skips the build."""
    module.write_text(MODULE.replace("VALUE)", "MISSING)"))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            tool.api.load("mode4", [str(module)])
    module.write_text(MODULE)
    assert tool.api.load("mode4", [str(module)]).value() == 1


@pytest.mark.torch_fails(by=AssertionError)
def test_5_edited_header_is_noticed_in_the_same_process(tool: Tool, module: Path) -> None:
    """PyTorch looks at the main sources alone, and returns the module of the old header."""
    assert tool.api.load("mode5", [str(module)]).value() == 1
    module.with_name("value.h").write_text("#define VALUE 2\n")
    assert tool.api.load("mode5", [str(module)]).value() == 2


@pytest.mark.slow("copies torch, and builds twice")
@pytest.mark.torch_fails(by=AssertionError)
def test_6_torch_that_is_upgraded_in_its_place_is_noticed(tool: Tool, module: Path, torch_copy: TorchCopy) -> None:
    """PyTorch's folder is named after Python and CUDA alone, and its headers are not followed (-isystem, -MMD)."""
    module.with_name("value.h").write_text("#include <torch/headeronly/version.h>\n#define VALUE TORCH_VERSION_PATCH\n")
    code = f"print(tool.load('mode6', [{str(module)!r}]).value())"
    torch_copy.write(70, "a" * 40)
    assert tool.run(code, site=torch_copy.site) == "70"
    torch_copy.write(71, "b" * 40)
    assert tool.run(code, site=torch_copy.site) == "71"


@pytest.mark.torch_fails(by=AssertionError)
@pytest.mark.slow("builds twice in new processes")
def test_6_another_commit_of_the_same_version_is_another_torch(tool: Tool, module: Path, torch_copy: TorchCopy) -> None:
    """A nightly, or one built from sources: PyTorch's tool sees no difference."""
    header = torch_copy.headers / "headeronly" / "version.h"
    module.with_name("value.h").write_text("#include <torch/headeronly/version.h>\n")
    code = f"print(tool.load('mode6', [{str(module)!r}]).value())"
    for value in (1, 2):
        torch_copy.write(70, str(value) * 40)
        header.write_text(header.read_text().partition("#define VALUE")[0] + f"#define VALUE {value}\n")
        assert tool.run(code, site=torch_copy.site) == str(value)


@pytest.mark.torch_fails(by=AssertionError)
def test_7_variables_that_compilers_read_are_noticed(
    tool: Tool, module: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """PyTorch notices no variable within a process, and across processes only what changes a command line."""
    module.with_name("value.h").unlink()
    for value in (1, 2):
        (tmp_path / str(value)).mkdir()
        (tmp_path / str(value) / "value.h").write_text(f"#define VALUE {value}\n")
        monkeypatch.setenv("CPATH", str(tmp_path / str(value)))
        assert tool.api.load("mode7", [str(module)]).value() == value


@pytest.mark.torch_fails(by=AssertionError)
def test_8_finished_library_needs_neither_compiler_nor_ninja(tool: Tool, module: Path) -> None:
    """PyTorch asks for ninja, a compiler and nvcc before it looks for the finished library."""
    code = f"print(tool.load('mode8', [{str(module)!r}]).value())"
    assert tool.run(code) == "1"
    assert tool.run(code, PATH="/nonexistent") == "1"


@pytest.mark.slow("processes that import torch")
@pytest.mark.torch_fails(by=AssertionError)
def test_8_finished_library_starts_no_program(tool: Tool, module: Path) -> None:
    """PyTorch starts ninja and asks the compiler for its version, each time."""
    code = f"print(tool.load('mode8', [{str(module)!r}]).value())"
    assert tool.run(code) == "1"
    guard = (
        "sys.addaudithook(lambda e, a: sys.exit(e) if e in ('subprocess.Popen', 'os.fork', 'os.posix_spawn') else 0)\n"
    )
    assert tool.run(guard + code) == "1"
