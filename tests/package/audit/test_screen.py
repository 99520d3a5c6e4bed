"""The screen is short and calm for a good wheel, shows each fault with its remedy, and the command's exit code follows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_library import SHIMS, library
from make_wheel import wheel
from planted_faults import good_wheel

import opsmith
from opsmith.cli.audit import command

GOOD = """\
smooth 1.0   py3-none-manylinux_2_28_x86_64, {size}, 6 files
  torch      2.10 or newer   stable ABI, 4 functions; the newest is torch_library_impl
  Python     any
  operators  smooth::lowpass

  smooth/_ops.so   {library}

sound: nothing that it claims is false
"""


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_a_good_wheel_takes_ten_lines(tmp_path):
    status, shown = run(good_wheel(tmp_path))
    assert status == 0
    size = shown.splitlines()[0].split(", ")[1]
    parts = shown.splitlines()[5].removeprefix("  smooth/_ops.so   ")
    assert shown == GOOD.format(size=size, library=parts)


def test_a_fault_is_shown_with_what_fixes_it(tmp_path):
    data = library(calls=(*SHIMS, "torch_tensor_from_pyobject"), flags=("-Wl,-rpath,/home/me/lib",))
    status, shown = run(wheel(tmp_path, {"smooth/_ops.so": data}))
    assert status == 1
    assert "torch_tensor_from_pyobject exists only since torch 2.14  [torch-floor-too-low]" in " ".join(
        shown.split("\n  ")
    )
    assert '    require "torch>=2.14", or build with a lower torch-target\n' in shown
    assert "patchelf --remove-rpath _ops.so" in shown
    assert shown.splitlines()[-1] == "refused: 2 faults"


def test_json_has_everything(tmp_path):
    status, shown = run(good_wheel(tmp_path), "--json")
    result = json.loads(shown)
    assert status == 0
    assert result["sound"] is True
    assert result["floors"]["torch"] == [2, 10]
    assert result["libraries"][0]["symbols"]["shims"] == sorted(SHIMS)
    assert result["libraries"][0]["schemas"] == ["smooth::lowpass: lowpass(Tensor x, float alpha) -> Tensor"]


@pytest.mark.parametrize("words", [[], ["no such file"], ["--archs"], ["."]])
def test_a_wrong_command_line_exits_with_2(words):
    status, _ = run(*words)
    assert status == 2


def test_names_from_the_archive_cannot_write_to_the_terminal(tmp_path):
    data = library(texts=("f(Tensor x) -> Tensor", "smooth::f", "/home/\x1b[31m/x.cpp".replace("\x1b", "\\033")))
    _, shown = run(wheel(tmp_path, {"smooth/_ops.so": data}), "-v")
    assert "\x1b" not in shown


def test_the_page_explains_every_finding():
    package = Path(opsmith.__file__).parent / "package" / "audit"
    code = "\n".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    names = set(re.findall(r"\b(?:fault|note)\(\s*\"([a-z-]+)\"", code)) | set(
        re.findall(r"\"((?:glibc|libstdcxx)-newer-than-tag)\"", code)
    )
    page = (Path(__file__).parents[3] / "docs" / "guides" / "audit.md").read_text(encoding="utf-8")
    assert len(names) > 40
    assert {name for name in names if f"`{name}`" not in page} == set()
