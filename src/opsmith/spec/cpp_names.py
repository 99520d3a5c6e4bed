"""Spells a name of Python's as C++ allows it."""

from __future__ import annotations

__all__ = ["identifier"]

# C++20's keywords and its other words for operators, without those that are Python's as well.
_KEYWORDS = frozenset(
    """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char16_t char32_t char8_t co_await co_return co_yield
    compl concept const const_cast consteval constexpr constinit decltype default delete do double dynamic_cast enum
    explicit export extern false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator
    or_eq private protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true typedef typeid typename union unsigned using virtual void volatile
    wchar_t xor xor_eq
    """.split()  # noqa: SIM905 - a list of 50 quoted words would hide them
)


def identifier(name: str) -> str:
    """Return a Python name as a C++ identifier."""
    return f"{name}_" if name in _KEYWORDS else name
