"""The stubs of torch.ops: what Python types the schema language becomes."""

from __future__ import annotations

import ast

import pytest
import torch

from opsmith.codegen.typings import namespace_stub, package_files


def call_of(schema: str) -> ast.FunctionDef:
    """Return the stub's `__call__` of one operator."""
    tree = ast.parse(namespace_stub([torch._C.parse_schema(schema)]))
    operator = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    call = operator.body[0]
    assert isinstance(call, ast.FunctionDef)
    return call


@pytest.mark.parametrize(
    ("schema", "python"),
    [
        ("Tensor x", "Tensor"),
        ("Tensor(a!) x", "Tensor"),
        ("Tensor? x", "Tensor | None"),
        ("Tensor[] x", "Sequence[Tensor]"),
        ("Tensor?[] x", "Sequence[Tensor | None]"),
        ("int x", "int"),
        ("SymInt[] x", "Sequence[int]"),
        ("int[2]? x", "Sequence[int] | None"),
        ("float x", "float"),
        ("Scalar x", "float | complex"),
        ("bool x", "bool"),
        ("str? x", "str | None"),
        ("ScalarType? x", "torch.dtype | None"),
        ("Device x", "torch.device | str"),
        ("Dict(str, Tensor) x", "dict[str, Tensor]"),
        ("Any x", "Any"),
    ],
)
def test_an_argument_has_its_python_type(schema, python):
    call = call_of(f"demo::op({schema}) -> ()")
    annotation = call.args.args[1].annotation
    assert annotation is not None
    assert ast.unparse(annotation) == python


@pytest.mark.parametrize(
    ("schema", "python"),
    [
        ("()", "None"),
        ("Tensor", "Tensor"),
        ("Tensor[]", "list[Tensor]"),
        ("(Tensor, int)", "tuple[Tensor, int]"),
    ],
)
def test_a_result_has_its_python_type(schema, python):
    returns = call_of(f"demo::op(Tensor x) -> {schema}").returns
    assert returns is not None
    assert ast.unparse(returns) == python


def test_keyword_only_arguments_defaults_and_names_that_python_has_taken():
    call = call_of("demo::op(Tensor self, float lambda, *, int n=3) -> Tensor")
    assert [arg.arg for arg in call.args.args] == ["_operator", "self", "_lambda"]
    assert [arg.arg for arg in call.args.kwonlyargs] == ["n"]
    assert len(call.args.kw_defaults) == 1
    assert call.args.kw_defaults[0] is not None


def test_overloads_are_overloads():
    schemas = [torch._C.parse_schema(text) for text in ("demo::op(Tensor x) -> Tensor", "demo::op.n(int n) -> int")]
    text = namespace_stub(schemas)
    assert text.count("@overload") == 2
    assert "    default: _op" in text
    assert "    n: _op" in text


def test_an_overload_whose_name_python_has_taken_is_left_to_getattr():
    text = namespace_stub([torch._C.parse_schema("demo::op.from(Tensor x) -> Tensor")])
    (operator, _) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    assert [node.name for node in operator.body if isinstance(node, ast.FunctionDef)] == ["__call__", "__getattr__"]
    assert not any(isinstance(node, ast.AnnAssign) for node in operator.body)


def test_the_package_is_partial_and_leads_to_every_namespace():
    files = package_files(["b", "a"])
    assert files["py.typed"] == "partial\n"
    ast.parse(files["_ops.pyi"])
    assert "    a: _ops_of_a.Namespace\n    b: _ops_of_b.Namespace\n" in files["_ops.pyi"]
