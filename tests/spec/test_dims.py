"""Sizes in shapes: what may be written, and that Python and C++ compute the same from it."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from opsmith.build.plan import INCLUDE_DIR
from opsmith.errors import DefinitionError
from opsmith.spec.dims import parse_expression
from opsmith.toolchain import find_toolchain

ARITHMETIC = [
    "H",
    "7",
    "3*H",
    "-H",
    "H+W-1",
    "(H*up+pad-kh)//down+1",
    "(H-W)//3",
    "(H-W)%3",
    "(W-H)//(0-3)",
    "-H//2",
    "-(H//2)",
    "H-W%4-1",
    "min(H, W)*max(H, 3)",
    "max(min(H, 2), W-H)",
    "2*(H+1)*(W-2)",
]
VALUES = [
    {"H": height, "W": width, "up": up, "down": down, "pad": pad, "kh": 3}
    for height, width, up, down, pad in itertools.product((0, 1, 5, 12), (0, 3, 40), (1, 2), (1, 3), (-2, 4))
]


def parse(text: str):
    return parse_expression(text, where="f: x")


@pytest.mark.parametrize("text", ARITHMETIC)
def test_python_value_is_python_s_own(text: str) -> None:
    for values in VALUES:
        assert parse(text).evaluate(values) == eval(text, {"min": min, "max": max}, values)


@pytest.mark.compile
def test_cpp_text_gives_the_same_values_as_python(tmp_path: Path) -> None:
    rows, expected = [], []
    for values in VALUES:
        arguments = "; ".join(f"int64_t {name} = {value}" for name, value in values.items())
        body = " ".join(f'std::printf("%lld\\n", (long long)({parse(text).cpp()}));' for text in ARITHMETIC)
        rows.append(f"{{ {arguments}; {body} }}")
        expected += [parse(text).evaluate(values) for text in ARITHMETIC]
    program = "\n".join(
        ["#include <opsmith/binding.h>", "using namespace opsmith::binding;", "int main() {", *rows, "}"]
    )
    source, binary = tmp_path / "sizes.cpp", tmp_path / "sizes"
    source.write_text(program)
    toolchain = find_toolchain(cuda=False, rocm=False)
    includes = [f"-I{INCLUDE_DIR}", *(f"-I{folder}" for folder in toolchain.torch.include_dirs)]
    libraries = [f"-L{toolchain.torch.lib_dir}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{toolchain.torch.lib_dir}"]
    command = [*toolchain.host.command, "-std=c++20", "-O0", *includes, str(source), "-o", str(binary), *libraries]
    subprocess.run(command, check=True, capture_output=True)
    printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("H/2", "divides with `/`; sizes are integers, write `//`"),
        ("H**2", "uses `H ** 2`; a dimension is made of names, integers"),
        ("H.size", "uses `H.size`"),
        ("2.5", "uses `2.5`"),
        ("True", "uses `True`"),
        ("'a'", "uses `'a'`"),
        ("abs(H)", "uses `abs(H)`"),
        ("min(H)", "uses `min(H)`"),
        ("min(H, key=W)", "uses `min(H, key=W)`"),
        ("H<W", "uses `H < W`"),
        ("+H", "uses `+H`"),
        ("3S", "is not an expression"),
        ("(H", "is not an expression"),
        ("9223372036854775808", "has a number that does not fit into 64 bits"),
    ],
)
def test_anything_but_integer_arithmetic_is_refused(text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        parse(text)
    assert words in str(error.value)
    assert str(error.value).startswith(f"f: x: the dimension {text!r}")


@pytest.mark.parametrize(
    ("text", "name", "values", "scale", "offset"),
    [
        ("S", "S", {}, 1, 0),
        ("3*S", "S", {}, 3, 0),
        ("S*3+I", "S", {"I": 5}, 3, 5),
        ("I-S", "S", {"I": 5}, -1, 5),
        ("-(S-2)*up", "S", {"up": 4}, -4, 8),
        ("S+S", "S", {}, 2, 0),
        ("2*(S+1)*k", "S", {"k": 3}, 6, 6),
    ],
)
def test_affine_sizes_are_taken_apart(text: str, name: str, values: dict[str, int], scale: int, offset: int) -> None:
    affine = parse(text).affine_in(name)
    assert affine is not None
    assert (affine.scale.evaluate(values), affine.offset.evaluate(values)) == (scale, offset)


@pytest.mark.parametrize("text", ["S*S", "S//2", "S%2", "min(S, 4)", "3", "I", "2*(S//2)"])
def test_sizes_that_do_not_determine_a_name_have_no_affine_form(text: str) -> None:
    assert parse(text).affine_in("S") is None


def test_names_and_plain_forms() -> None:
    assert parse("max(H*up, W)").names == {"H", "up", "W"}
    assert (parse("H").name, parse("H+0").name) == ("H", None)
    assert (parse("12").constant, parse("6+6").constant) == (12, None)


def test_division_by_zero_is_python_s_error() -> None:
    with pytest.raises(ZeroDivisionError):
        parse("H//s").evaluate({"H": 4, "s": 0})


@pytest.mark.parametrize(
    ("text", "values"),
    [("H*W", {"H": 1 << 32, "W": 1 << 31}), ("H//W", {"H": -(1 << 63), "W": -1}), ("-H", {"H": -(1 << 63)})],
)
def test_what_exceeds_64_bits_has_no_value(text: str, values: dict[str, int]) -> None:
    with pytest.raises(OverflowError):
        parse(text).evaluate(values)


@pytest.mark.parametrize("text", ["+".join(["H"] * 3000), "(" * 300 + "H" + ")" * 300, "-" * 3000 + "H"])
def test_an_expression_of_many_parts_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"f: x: the dimension '.{57}\.\.\.'"):
        parse(text)
