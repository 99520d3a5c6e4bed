"""What a C++ source defines, read from its text: enough to refuse, and never more than PyTorch confirms."""

from __future__ import annotations

import pytest
import torch

from opsmith.runtime.registrations import Registrations, find_clash, find_registrations


@pytest.mark.parametrize(
    ("text", "namespaces", "operators"),
    [
        ('TORCH_LIBRARY(mine, m) { m.def("f(Tensor x) -> Tensor"); }', {"mine"}, set()),
        ('STABLE_TORCH_LIBRARY(mine, m) {\n m.def("f() -> ()"); }', {"mine"}, set()),
        ("TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}", {"extension"}, set()),
        ('TORCH_LIBRARY_FRAGMENT(mine, m) { m.def("f(Tensor x) -> Tensor"); }', set(), {"mine::f"}),
        ('TORCH_LIBRARY_FRAGMENT(mine, m) { m.def(R"(f.out(Tensor x) -> Tensor)"); }', set(), {"mine::f.out"}),
        (
            'TORCH_LIBRARY_FRAGMENT(_, m) { m . def( "other::f", &f); m.def(torch::schema("g() -> ()")); }',
            set(),
            {"other::f", "_::g"},
        ),
        ('TORCH_LIBRARY_IMPL(mine, CPU, m) { m.impl("f", &f); }', set(), set()),
        ("// TORCH_LIBRARY(mine, m) {\n/* TORCH_LIBRARY(mine, m) { */", set(), set()),
        ("#define TORCH_LIBRARY_EXPAND(N, M) \\\n  TORCH_LIBRARY(N, M) {}\n", set(), set()),
        ('TORCH_LIBRARY(url, m) { m.def("f(str x=\\"http://x\\") -> ()"); }', {"url"}, set()),
        ("int plain() { return 1; }", set(), set()),
    ],
)
def test_definitions_are_found(text: str, namespaces: set[str], operators: set[str]) -> None:
    assert find_registrations([text], "extension") == Registrations(frozenset(namespaces), frozenset(operators))


def test_only_what_pytorch_has_is_a_clash() -> None:
    library = torch.library.Library("registrations_test", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.define("g.one(Tensor x) -> Tensor")
    assert find_clash(Registrations(namespaces=frozenset({"registrations_test"}))) == "the namespace registrations_test"
    # Asking makes the namespace for a moment; it must not stay.
    free = Registrations(namespaces=frozenset({"registrations_free"}))
    assert [find_clash(free), find_clash(free)] == [None, None]
    assert find_clash(Registrations(operators=frozenset({"registrations_test::f"}))) is not None
    assert find_clash(Registrations(operators=frozenset({"registrations_test::h"}))) is None
    assert find_clash(Registrations(operators=frozenset({"registrations_test::g.one"}))) is not None
    assert find_clash(Registrations(operators=frozenset({"registrations_test::g.two"}))) is None
