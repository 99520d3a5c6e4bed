"""A launch is computed alike in Python and in C++, and what cannot be computed is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from opsmith.errors import DefinitionError
from opsmith.spec.block_launch import parse_block_launch
from opsmith.spec.launch import Launch, parse_launch


def _parse(grid: object, configs: Any = None, **shared: Any) -> Launch:
    return parse_launch("op: kernel.py", grid, configs, shared)


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ("cdiv(N, BLOCK), B", (4, 3, 1)),
        ("(max(1, N // BLOCK), min(B, 2), 7)", (3, 2, 7)),
        (["cdiv(N, BLOCK)", 2], (4, 2, 1)),
        (5, (5, 1, 1)),
        ("triton.cdiv(N, BLOCK) % 3", (1, 1, 1)),
    ],
)
def test_grid_in_a_configuration(grid: object, expected: tuple[int, int, int]) -> None:
    launch = _parse(grid, BLOCK=32)
    assert launch.size(launch.configs[0], {"N": 100, "B": 3}) == expected


def test_cdiv_is_written_as_floor_division() -> None:
    (axis,) = _parse("cdiv(N, BLOCK)", BLOCK=32).axes
    assert axis.text == "cdiv(N, BLOCK)"
    assert axis.cpp({"N": "n", "BLOCK": "32"}) == "subtract(0, floor_div(subtract(0, n), 32))"


def test_a_condition_may_have_the_configuration_s_constants():
    launch = parse_launch("f", "N", [{"BLOCK": 16, "when": "N <= BLOCK"}, {"BLOCK": 64, "when": "N <= 2 * BLOCK"}], {})
    chosen = [launch.choose({"N": n}) for n in (16, 17, 128, 129)]
    assert [config and config.numbers["BLOCK"] for config in chosen] == [16, 64, 64, None]


def test_a_configuration_that_is_there_twice_is_compiled_once():
    configs = [
        {"A": 1, "when": "N == 1"},
        {"A": 2, "when": "N == 2"},
        {"A": 1, "when": "N == 3"},
        {"A": 1, "num_warps": 4},
    ]
    launch = parse_launch("f", "N", configs, {})
    assert [(config.numbers["A"], config.options, config.when) for config in launch.compiled] == [
        (1, (), None), (2, (), None), (1, (("num_warps", 4),), None),
    ]  # fmt: skip


def test_options_of_triton_s_backends_are_no_constants():
    options = {"num_stages": 2, "maxnreg": 64, "waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 2}
    (config,) = _parse("N", A=1, **options).configs
    assert (config.numbers, dict(config.options)) == ({"A": 1}, options)


def test_constants_that_are_equal_in_python_are_compiled_apart():
    configs = [{"A": 1, "when": "N == 1"}, {"A": True, "when": "N == 2"}, {"A": 1.0}]
    launch = parse_launch("f", "N", configs, {})
    assert [dict(config.constants)["A"].__class__ for config in launch.compiled] == [int, bool, float]
    assert [launch.place(config) for config in launch.configs] == [0, 1, 2]


def test_first_configuration_that_holds_is_taken() -> None:
    configs = [
        {"BLOCK": 1, "when": "N <= 16 and M > 2"},
        {"BLOCK": 2, "when": "not N % 2 == 0 or 16 < N <= 32"},
        {"BLOCK": 3, "num_warps": 8},
    ]
    launch = _parse("N", configs, num_warps=4)

    def chosen(n: int, m: int) -> dict[str, int]:
        config = launch.choose({"N": n, "M": m})
        assert config is not None
        return config.numbers

    assert [chosen(16, 3), chosen(16, 1), chosen(15, 1), chosen(32, 9)] == [
        {"BLOCK": 1},
        {"BLOCK": 3},
        {"BLOCK": 2},
        {"BLOCK": 2},
    ]
    assert [dict(config.options) for config in launch.configs] == [{"num_warps": 4}, {"num_warps": 4}, {"num_warps": 8}]
    assert launch.configs[1].when is not None
    assert launch.configs[1].when.cpp({"N": "n"}) == (
        "(!((floor_mod(n, int64_t{2}) == int64_t{0})) || (int64_t{16} < n && n <= int64_t{32}))"
    )


@pytest.mark.parametrize(
    ("grid", "configs", "shared", "words"),
    [
        (lambda meta: (1,), None, {}, "it cannot be a function"),
        ("N, M, B, 2", None, {}, "has 4 sizes"),
        ("N +", None, {}, "is not an expression"),
        ("f(N)", None, {}, r"'f\(N\)' cannot be computed in C\+\+"),
        ("N / 2", None, {}, r"cannot be computed in C\+\+"),
        ("N", [], {}, "configs= is a list of configurations"),
        ("N", [{"A": 1}, {"B": 2}], {}, "different constants: A, B"),
        ("N", [{"A": 1}, {"A": 2}], {}, "configuration 0 has no condition"),
        ("N", [{"when": "N"}], {}, "'N' is not a condition"),
        ("N", [{"when": 3}], {}, 'expected text such as "N <= 1024"'),
        ("N", None, {"A": [1, 2]}, "Several values are several configurations"),
        ("N", None, {"num_warps": 0}, "expected a positive int"),
        ("N", None, {"num_ctas": 2}, "num_ctas cannot be part"),
    ],
)
def test_what_is_no_launch_is_refused(grid: object, configs: Any, shared: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        _parse(grid, configs, **shared)


def test_block_and_shared_memory_are_computed_like_the_grid() -> None:
    launch = parse_block_launch("op: kernel.cu", "N", "BLOCK // 4, 4", "4 * BLOCK", None, {"BLOCK": 128, "fast": True})
    assert [axis.evaluate({"BLOCK": 128}) for axis in launch.threads] == [32, 4]
    assert launch.shared_bytes.evaluate({"BLOCK": 128}) == 512
    assert [each.text for each in launch.expressions] == ["N", "BLOCK // 4", "4", "4 * BLOCK"]
    # To a kernel in CUDA this is a name like others.
    assert parse_block_launch("", 1, 1, 0, None, {"num_warps": 4}).constants == ("num_warps",)


@pytest.mark.parametrize(
    ("block", "shared", "constants", "words"),
    [
        (None, 0, {}, "block= is text over the sizes of a call and the kernel's constants"),
        ("1, 2, 3, 4", 0, {}, "block= has 4 sizes; a block has one to three"),
        (1, "1, 2", {}, "shared= has 2 sizes; it is one number"),
        (1, "f(N)", {}, r"'f\(N\)' cannot be computed in C\+\+"),
        (1, 0, {"F": 1.5}, "a constant of a CUDA kernel is a template parameter, an int or a bool"),
        (1, 0, {"F": "text"}, r"Others are macros: flags="),
    ],
)
def test_what_is_no_block_is_refused(block: Any, shared: Any, constants: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        parse_block_launch("op: kernel.cu", "N", block, shared, None, constants)


def test_a_block_of_a_configuration_is_computed() -> None:
    with pytest.raises(DefinitionError, match="block cannot be part of a configuration"):
        parse_block_launch("op: kernel.cu", "N", 1, 0, [{"block": 64}], {})
    with pytest.raises(DefinitionError, match="configs= is a list of configurations"):
        parse_block_launch("op: kernel.cu", "N", 1, 0, {"BLOCK": 64}, {})  # type: ignore[arg-type]
