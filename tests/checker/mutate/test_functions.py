"""Bodies of functions are found in namespaces, structs and templates, and the kernel that calls them is known."""

from __future__ import annotations

from opsmith.checker.mutate.functions import bodies_of, reached_from
from opsmith.checker.mutate.tokens import tokenize

TRICKY = """
#include <opsmith/kernel.h>
namespace a::b { namespace {
constexpr int width = 16 < 8 ? 1 : 2;
int table[] = {1, 2, (3)};
struct alignas(16) Pair final : Base<int> {
  int x{0};
  explicit Pair(int x, int y) noexcept : x(x), others{y + 1} { check(x < y); }
  template <class F>
  bool operator()(const F& f) const { return f(x) > 0; }
  Pair operator+(Pair other) const { return {x + other.x}; }
};
enum class Side : int { left, right };
template <class T, class = std::enable_if_t<(sizeof(T) > 4)>>
__attribute__((noinline)) auto helper(T a, T b) -> decltype(a + b) {
  const auto inner = [&](T c) { return c - a; };
  return inner(b);
}
const auto square = [](int x) { return x * x; };
}}  // namespace
extern "C" { void plain(int n) { if (n) { helper(n, 1); } } }
template <class T>
__global__ void __launch_bounds__(256) kernel(View<const T, 1> x) { Pair pair(1, 2); square(3); }
"""


def names(source: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(body.name, body.around) for body in bodies_of(tokenize(source))]


def test_bodies_in_tricky_text():
    assert names(TRICKY) == [
        ("Pair", ("Pair",)),
        ("operator", ("Pair",)),
        ("operator", ("Pair",)),
        ("helper", ()),
        ("square", ()),
        ("plain", ()),
        ("kernel", ()),
    ]


def test_the_initialisers_of_a_constructor_are_part_of_it():
    tokens = tokenize(TRICKY)
    body = bodies_of(tokens)[0]
    text = [token.text for token in tokens[body.begin : body.end]]
    assert text[:4] == ["x", "(", "x", ")"]
    assert "+" in text
    assert "<" in text


def test_what_a_kernel_calls_is_reached_and_nothing_else():
    tokens = tokenize(TRICKY)
    bodies = bodies_of(tokens)

    def reached(entry: str) -> set[str]:
        found = reached_from([entry], {"f": (tokens, bodies)}, {"f": frozenset()})
        return {bodies[index].name for _, index in found}

    assert reached("plain") == {"plain", "helper"}
    assert reached("kernel") == {"kernel", "Pair", "operator", "square"}
    assert reached("no_such") == set()


def test_text_that_is_cut_off_is_no_endless_loop():
    for end in range(0, len(TRICKY), 7):
        bodies_of(tokenize(TRICKY[:end]))
