"""`opsmith help` lists topics and prints them; what a cheat sheet says compiles, runs, and exists."""

from __future__ import annotations

import importlib
import re
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.utils.cpp_extension import include_paths

from compilers import INCLUDE, compiled, find_compiler
from opsmith import _env
from opsmith.cli import _cli
from opsmith.cli.help import TOPICS, topic_text
from opsmith.codegen.prototype import native_prototype, view_prototype
from opsmith.notebook.cell import DEFINITION, read_cell
from opsmith.runtime.options import OpOptions
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Kernel

_MOST_LINES, _MOST_COLUMNS = 60, 100

# A definition with every kind of parameter that the sheets name.
_EVERYTHING = """
from dataclasses import dataclass
from typing import Literal
from jaxtyping import Float, Int
from torch import Tensor

@dataclass(frozen=True)
class Window:
    size: int
    step: int

def everything(
    x: Float[Tensor, "B N"], index: Int[Tensor, "N"], w: Float[Tensor, "N"] | None, xs: list[Float[Tensor, "N"]],
    n: int, a: float, b: bool, p: float | None, sizes: list[int], mode: str, window: Window,
) -> Float[Tensor, "B N"]: ...
"""


def run_help(*words: str) -> Any:
    return CliRunner().invoke(_cli, ["help", *words], prog_name="opsmith")


def snippets(topic: str) -> list[str]:
    """Return the code of a sheet: what is indented from an include, an import or a magic on."""
    code = re.findall(r"^  (?:#include|import|%load_ext).*\n(?:  .*\n|\n)*", topic_text(topic), re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in code]


def rest_of(topic: str) -> str:
    """Return a sheet without its code."""
    text = topic_text(topic)
    for code in snippets(topic):
        text = text.replace(textwrap.indent(code, "  "), "")
    return text


def parameters_in(prototype: str) -> list[str]:
    """Return the types of a kernel's parameters."""
    inside = prototype[prototype.index("(") + 1 : prototype.rindex(")")]
    return [re.sub(r"\s*\w+$", "", word).strip() for word in re.split(r",\s*(?![^<]*>)", inside)]


def test_the_topics_are_listed():
    shown = run_help().output
    for name, topic in TOPICS.items():
        assert re.search(rf"^  {name} +{re.escape(topic.about.split()[0])}", shown, re.MULTILINE)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_printed_and_fits_on_a_screen(topic):
    shown = run_help(topic).output
    assert shown == topic_text(topic)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= _MOST_COLUMNS
    if topic != "environment":
        assert len(lines) <= _MOST_LINES


def test_the_name_of_a_command_prints_its_help():
    assert run_help("doctor").output.startswith("Usage: opsmith doctor [OPTIONS]")


def test_an_unknown_name_is_refused_with_the_nearest():
    done = run_help("kernle")
    assert done.exit_code == 2
    assert "no topic or command 'kernle'. Did you mean 'kernel'?" in done.output


def test_the_environment_has_every_variable():
    shown = run_help("environment").output
    assert [line.split()[0] for line in shown.splitlines()[2:] if line and line[0] != " "] == [
        variable.name for variable in _env.VARIABLES
    ]


def everything() -> Any:
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(_EVERYTHING, "everything", "exec"), names)
    return read_signature(names["everything"], Choices())


def test_the_kernel_sheet_has_the_types_that_kernels_get():
    kernel = Kernel("view", (Path("everything.cu"),), "everything")
    types = parameters_in(view_prototype(everything(), kernel, "cuda"))
    assert len(types) == 13
    for name in types:
        assert name in ("Window", "Stream") or f"{name} " in topic_text("kernel"), name


def test_the_native_sheet_has_the_types_that_kernels_get():
    kernel = Kernel("native", (Path("everything.cpp"),), "everything")
    types = parameters_in(native_prototype(everything(), kernel))
    assert len(types) == 11
    for name in types:
        assert name == "const Window&" or re.search(rf"{re.escape(name)}(?= |,|$)", topic_text("native")), name


def test_every_name_of_a_header_is_in_it():
    rows = re.findall(r"^  (\w+\.h) +(.*)$", topic_text("kernel"), re.MULTILINE)
    assert len(rows) > 5
    for header, says in rows:
        text = (INCLUDE / "opsmith" / header).read_text()
        names = re.sub(r"\(.*?\)|<.*?>", "", re.split(r"(?<!:):(?!:)", says)[0]).replace("math::", "").split(", ")
        for name in (words.split()[0] for words in names):
            assert re.search(rf"\b{name}\b", text), f"{header} has no {name}"


@pytest.mark.parametrize("topic", ["kernel", "native"])
def test_every_function_that_a_sheet_calls_exists(topic):
    api = "\n".join(path.read_text() for path in INCLUDE.rglob("*.h"))
    called = set(re.findall(r"\b([a-z_]{2,})(?:<[\w, ]+>)?\(", rest_of(topic)))
    unknown = {name for name in called if not re.search(rf"\b{name}\b", api)}
    # Members of torch's tensors, and the operator of an error message.
    assert unknown <= {"dim", "scale", "get_device_index"}
    assert len(called) > 5


def test_the_kernel_sheet_has_the_headers_for_kernels():
    listed = set(re.findall(r"^//   (\w+\.h)", (INCLUDE / "opsmith" / "kernel.h").read_text(), re.MULTILINE))
    assert set(re.findall(r"^  (\w+\.h)", topic_text("kernel"), re.MULTILINE)) <= listed


@pytest.mark.compile
def test_the_kernels_of_the_sheets_compile_for_the_cpu(tmp_path: Path):
    cpu = snippets("kernel")[0]
    source = tmp_path / "scale.cpp"
    source.write_text(f"{cpu}\ntemplate void scale<bfloat16>(View<const bfloat16, 1>, double, View<bfloat16, 1>);\n")
    flags = ("-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-fsyntax-only")
    compiled(source, find_compiler("g++"), *flags)


@pytest.mark.compile
def test_the_kernels_of_the_sheets_compile_for_gpus(tmp_path: Path):
    gpu = snippets("kernel")[1]
    source = tmp_path / "scale.cu"
    source.write_text(
        f"{gpu}\ntemplate void scale<float16>(View<const float16, 1>, double, View<float16, 1>, Stream);\n"
    )
    compiled(source, find_compiler("nvcc"), "-std=c++20", f"-I{INCLUDE}", "-c")


@pytest.mark.compile
def test_the_native_kernel_of_the_sheet_compiles(tmp_path: Path):
    (native,) = snippets("native")
    source = tmp_path / "scaled_mm.cpp"
    source.write_text(native)
    folders = [f"-I{folder}" for folder in (INCLUDE, *include_paths())]
    compiled(source, find_compiler("g++"), "-std=c++20", *folders, "-DTORCH_TARGET_VERSION=0x020a000000000000", "-c")


def test_the_definition_of_the_sheet_can_be_declared_and_differentiated(tmp_path: Path, monkeypatch):
    (text,) = snippets("definition")
    (tmp_path / "sheet_of_help.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    scale = importlib.import_module("sheet_of_help").scale
    x = torch.randn(2, 3, requires_grad=True)
    y, norm = scale(x, None, [1.0, 2.0])
    (y.sum() + norm.sum()).backward()
    assert x.grad.shape == (2, 3)


def test_the_definition_sheet_has_every_option():
    listed = re.findall(r"(\w+)=(?=[ ,])", rest_of("definition"))
    assert set(listed) == {field.name for field in fields(OpOptions)}


def test_the_cell_of_the_notebook_sheet_is_one():
    (text,) = snippets("notebook")
    magic, cell = text.split("%%opsmith\n")
    assert magic.strip() == "%load_ext opsmith"
    assert list(read_cell(cell).files) == [DEFINITION, "twice.cpp"]
