"""Where a source declares a function, for messages that compare it with what the definition needs."""

from __future__ import annotations

import pytest

from opsmith.codegen.prototype import find_prototype

TEMPLATE = """#include <opsmith/kernel.h>
// void scale(int commented) {}
/* template <class T>
   void scale(T out) {} */
namespace { int helper(int scale) { return scale; } }

template <class T>
void scale(View<const T, 2> x, double factor,  // by how much
           View<T, 2> out)
{
  helper(3);
}
"""


def test_a_template_over_several_lines_is_shown_on_one() -> None:
    assert find_prototype(TEMPLATE, "scale") == (
        8,
        "template <class T> void scale(View<const T, 2> x, double factor, View<T, 2> out)",
    )


@pytest.mark.parametrize(
    ("source", "entry", "line", "text"),
    [
        ("void f(int a) {}\nvoid g(int b) {}", "g", 2, "void g(int b)"),
        ("namespace user {\nvoid f() {}\n}", "user::f", 2, "void user::f()"),
        ("namespace user { int g() { return 1; } }\nvoid f() {}", "f", 2, "void f()"),
        ("namespace a::b { namespace c {\nvoid f() {}\n}}", "f", 2, "void a::b::c::f()"),
        ("namespace { inline namespace v1 {\nvoid f() {}\n}}", "f", 2, "void f()"),
        ("std::tuple<Tensor, Tensor> f(const Tensor& x) {", "f", 1, "std::tuple<Tensor, Tensor> f(const Tensor& x)"),
        ("int x = 3;\nstatic inline int* f(int a)\n{", "f", 2, "static inline int* f(int a)"),
        ("void scaled(int a) {}\nvoid scale(int b) {}", "scale", 2, "void scale(int b)"),
        ("template <class T, int N>\nvoid f(T a) {}", "f", 2, "template <class T, int N> void f(T a)"),
    ],
)
def test_functions_are_found_by_name(source: str, entry: str, line: int, text: str) -> None:
    assert find_prototype(source, entry) == (line, text)


@pytest.mark.parametrize(
    "source", ["", "void g(int a) {}", "void f(int a);", "int main() { return f(3); }", "// void f(int a) {}"]
)
def test_what_is_not_a_definition_is_not_found(source: str) -> None:
    assert find_prototype(source, "f") is None
