"""Tokens of C++: comments, strings and directives are not code, and a template's brackets are no comparison."""

from __future__ import annotations

import pytest

from opsmith.checker.mutate.tokens import template_spans, tokenize


def texts(source: str) -> list[str]:
    return [token.text for token in tokenize(source)]


def templates(source: str) -> list[str]:
    tokens = tokenize(source)
    return [source[tokens[begin].start : tokens[end].end] for begin, end in template_spans(tokens).items()]


def test_comments_are_left_out():
    assert texts("a // < b\n /* a < b\n */ + /* ; */ c") == ["a", "+", "c"]
    assert texts("a // joined \\\n < b\n + c") == ["a", "+", "c"]


def test_strings_are_one_token():
    assert texts(r'f("a < b; \" }", u8R"x({ ")" )x", ' + r"'<', '\'')") == [
        "f",
        "(",
        r'"a < b; \" }"',
        ",",
        'u8R"x({ ")" )x"',
        ",",
        "'<'",
        ",",
        r"'\''",
        ")",
    ]


def test_a_directive_is_one_token_with_the_lines_joined_to_it():
    tokens = tokenize("#define LESS(a, b) \\\n  ((a) < (b))\n  # pragma omp atomic\nx += 1;")
    assert [token.kind for token in tokens[:3]] == ["directive", "directive", "name"]
    assert tokens[0].text.endswith("((a) < (b))")
    assert tokens[2].line == 4


def test_a_hash_within_a_line_is_no_directive():
    assert [token.kind for token in tokenize("a # b")] == ["name", "mark", "name"]


@pytest.mark.parametrize("number", ["1'000", "0x1Fu", "1e-5f", "1.5", ".5f", "0b101", "1e+3", "100LL"])
def test_numbers(number: str):
    (token,) = tokenize(number)
    assert (token.kind, token.text) == ("number", number)


def test_a_minus_behind_a_number_is_a_sign_of_its_own():
    assert texts("1-2") == ["1", "-", "2"]
    assert texts("0xE-1") == ["0xE-1"] or texts("0xE-1") == ["0xE", "-", "1"]


def test_positions_are_those_of_the_text():
    source = "int a;\n\n/* x */ b += 2;\n"
    for token in tokenize(source):
        assert source[token.start : token.end] == token.text
        assert source.count("\n", 0, token.start) + 1 == token.line


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("View<const T, 2> x", ["<const T, 2>"]),
        ("std::vector<std::pair<int, Two<C>>> x;", ["<int, Two<C>>", "<C>", "<std::pair<int, Two<C>>>"]),
        ("static_cast<int64_t>(a < b)", ["<int64_t>"]),
        ("static_cast <T> (a)", ["<T>"]),
        ("template <class T = int, int n = (2 > 1)> void f()", ["<class T = int, int n = (2 > 1)>"]),
        ("for (int i = 0; i<n; ++i) a[i] = b>c;", []),
        ("a < b ? c : d > e", []),
        ("a<b && c>d", []),
        ("x < y; z > w", []),
        ("f<<<grid, block>>>(x)", []),
        ("std::min<int64_t>(a, b) < c", ["<int64_t>"]),
        ("a << 2 > b", []),
    ],
)
def test_templates_are_told_from_comparisons(source: str, found: list[str]):
    assert sorted(templates(source)) == sorted(found)
