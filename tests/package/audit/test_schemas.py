"""Schemas are parsed as PyTorch parses them, and found in libraries; comparing two releases tells what breaks callers."""

from __future__ import annotations

import pytest
import torch
from make_library import SHIMS, library
from make_wheel import wheel

from opsmith.package.audit import audit
from opsmith.package.audit.compare import compare_schemas
from opsmith.package.audit.schemas import parse_schema

SCHEMAS = [
    "add2(Tensor a, Tensor b) -> Tensor",
    'ns::f(Tensor x, float alpha=1.5, *, bool flag=False, str mode="a, (b") -> (Tensor, Tensor)',
    "ns::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor(a!)[] xs, int[2] size=[1, 1], Tensor? w=None, SymInt[] s=[]) -> ()",
    "f(Tensor(a -> *) x, Device d, ScalarType? dtype=None, Generator? g=None) -> Tensor(a)[]",
    "f(Tensor x) -> (Tensor out, int[] sizes)",
    "f((Tensor, int)[] pairs, Dict(str, Tensor) named) -> int?",
    "f() -> bool",
]


@pytest.mark.parametrize("text", SCHEMAS)
def test_a_schema_is_parsed_as_by_pytorch(text):
    mine, theirs = parse_schema(text), torch._C.parse_schema(text)
    assert mine is not None
    assert (f"{mine.namespace}::{mine.name}" if mine.namespace else mine.name) == theirs.name
    assert mine.overload == theirs.overload_name
    assert [(item.name, item.is_keyword_only, item.default is not None) for item in mine.arguments] == [
        (item.name, item.kwarg_only, item.has_default_value()) for item in theirs.arguments
    ]
    marks = [item.alias_info is not None and item.alias_info.is_write for item in theirs.arguments]
    assert [item.is_mutated for item in mine.arguments] == marks
    assert len(mine.returns) == len(theirs.returns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f(",
        "f(Tensor x) -> ",
        "operator()(int x) -> auto",
        "cannot convert f(x) -> y",
        "[](int a) -> int",
        "f(x) -> Tensor",
    ],
)
def test_other_texts_are_not_schemas(text):
    assert parse_schema(text) is None


OLD = "ns::f(Tensor(a!) x, Tensor y, int n, float alpha=1.0, *, bool flag=False) -> Tensor"


@pytest.mark.parametrize(
    ("new", "what", "breaks"),
    [
        ("ns::g(Tensor x) -> Tensor", "operator removed", True),
        (OLD.replace("Tensor y, ", ""), "argument removed", True),
        (OLD.replace("Tensor y, int n", "int n, Tensor y"), "arguments reordered", True),
        (OLD.replace("int n,", "Tensor n,"), "type changed", True),
        (OLD.replace("int n,", "SymInt n,"), "type changed", False),
        (OLD.replace("Tensor y,", "Tensor? y,"), "type changed", False),
        (OLD.replace("alpha=1.0", "alpha=2.0"), "default changed", True),
        (OLD.replace("alpha=1.0", "alpha"), "default removed", True),
        (OLD.replace("int n,", "int n=3,"), "default added", False),
        (OLD.replace("Tensor(a!) x", "Tensor x"), "mutation mark lost", True),
        (OLD.replace("Tensor y", "Tensor(b!) y"), "argument is written to now", True),
        (OLD.replace("float alpha=1.0, *,", "*, float alpha=1.0,"), "argument is keyword-only now", True),
        (OLD.replace("-> Tensor", "-> (Tensor, Tensor)"), "results changed", True),
        (OLD.replace("flag=False)", "flag=False, int more=0)"), "argument added", False),
        (OLD.replace("flag=False)", "flag=False, int more)"), "argument without a default added", True),
    ],
)
def test_each_change_is_named_and_judged(new, what, breaks):
    old_schema, new_schema = parse_schema(OLD), parse_schema(new)
    assert old_schema is not None
    assert new_schema is not None
    changes = [change for change in compare_schemas([old_schema], [new_schema]) if change.what != "operator added"]
    assert [(change.what, change.breaks) for change in changes] == [(what, breaks)]


def test_an_argument_before_older_ones_breaks_calls_by_position():
    old, new = parse_schema("f(Tensor x, int n=1) -> Tensor"), parse_schema("f(Tensor x, int m=0, int n=1) -> Tensor")
    assert old is not None
    assert new is not None
    changes = compare_schemas([old], [new])
    assert [(change.what, change.breaks) for change in changes] == [
        ("argument added", False),
        ("argument m stands before older ones", True),
    ]


def test_equal_schemas_have_no_changes():
    schema = parse_schema(OLD)
    assert schema is not None
    assert compare_schemas([schema], [schema]) == ()


def test_a_broken_schema_refuses_the_release(tmp_path):
    (tmp_path / "old").mkdir()
    old = wheel(tmp_path / "old", {"smooth/_ops.so": library(texts=("f(Tensor(a!) x, int n) -> ()", "smooth::f"))})
    new = wheel(tmp_path, {"smooth/_ops.so": library(texts=("f(Tensor x, int n) -> ()", "smooth::f"))}, version="1.1")
    result = audit(new, against=old)
    (finding,) = result.faults
    assert finding.name == "schema-broken"
    assert finding.title.startswith("smooth::f: mutation mark lost")
    assert audit(old, against=old).is_sound


def test_the_namespace_is_told_by_symbols_too(tmp_path):
    code = "void STABLE_TORCH_LIBRARY_FRAGMENT_static_init_rough_3(void) {}"
    result = audit(wheel(tmp_path, {"smooth/_ops.so": library(texts=("f(Tensor x) -> Tensor",), code=code)}))
    assert [schema.qualified for schema in result.facts.schemas] == ["rough::f"]


def test_a_library_that_hides_its_schemas_is_not_said_to_have_removed_operators(tmp_path):
    (tmp_path / "old").mkdir()
    old = wheel(tmp_path / "old", {"smooth/_ops.so": library()})
    hiding = library(calls=(*SHIMS, "_ZN5torch7Library4_defEOSt7variant"), texts=("g(Tensor x) -> Tensor", "smooth::g"))
    result = audit(wheel(tmp_path, {"smooth/_ops.so": hiding}, requires=("torch==2.13.0",)), against=old)
    assert "schemas-incomplete" in result.names()
    assert result.changes == () or all(change.what == "operator added" for change in result.changes)
    assert result.is_sound


def test_what_cannot_be_compared_is_said(tmp_path):
    empty = wheel(tmp_path, {"smooth/_ops.so": library(texts=())})
    assert "no-schemas" in audit(empty, against=empty).names()
