"""Writes a finding as a program: its input in plain PyTorch, then the operator and the reference side by side.

The program is for a file or a notebook of the user's, and imports the operator as they do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from opsmith.checker.literals import number_text, tensor_code
from opsmith.runtime.operator import Operator
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.subject import Subject

__all__ = ["snippet_of"]

# Names that a program may need, and where they come from.
_IMPORTS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "lay_out": "from opsmith.subject.layouts import lay_out",
    "TensorRecipe": "from opsmith.subject.case import TensorRecipe",
    "FakeTensorMode": "from torch._subclasses import FakeTensorMode",
}
_DIGITS = {"float64": 17, "float32": 9}
_FEW = 256


@dataclass(frozen=True)
class _Name:
    """How a program names something, and the line that it takes to be able to."""

    expression: str
    line: str = ""


@dataclass(frozen=True)
class _Program:
    """What the lines that call the operator are made of. `wide` are the arguments in float64, as the reference gets them."""

    operator: str
    reference: str
    arguments: tuple[str, ...]
    wide: tuple[str, ...]
    differentiable: tuple[str, ...]
    mutated: tuple[str, ...]
    is_large: bool
    keyword_only: tuple[str, ...] = ()

    @property
    def call(self) -> str:
        return f"{self.operator}({self.spelled(self.arguments)})"

    def spelled(self, values: Iterable[str]) -> str:
        """Return the inside of a call with these values for the arguments."""
        return ", ".join(
            f"{name}={value}" if name in self.keyword_only else value
            for name, value in zip(self.arguments, values, strict=True)
        )


def snippet_of(subject: Subject, case: Case, device: str, name: str = "value") -> str:
    """Return a program that shows what the property of that name has found on a case."""
    operator = _name_of_operator(subject)
    reference = _name_of_reference(subject, operator)
    passed = tuple(parameter for parameter in subject.parameters if parameter in case.arguments)
    body = [f"{parameter} = {_code(case.arguments[parameter], device)}" for parameter in passed]
    program = _Program(
        operator.expression,
        reference.expression,
        passed,
        tuple(_wide(parameter, case.arguments[parameter]) for parameter in passed),
        tuple(p for p in passed if p in subject.differentiable and _is_floating(case.arguments[p])),
        subject.mutated,
        case.elements > _FEW,
        subject.keyword_only,
    )
    body += ["", *_ENDS.get(name, _compare)(program)]
    digits = max((_DIGITS.get(recipe.dtype, 5) for recipe in case.tensors().values()), default=5)
    text = "\n".join(body)
    needed = [line for word, line in _IMPORTS.items() if re.search(rf"\b{word}\b", text)]
    head = [*needed, "import torch", *subject.imports, operator.line, reference.line]
    lines = [line for line in dict.fromkeys(head) if line]
    return "\n".join([*lines, "", f"torch.set_printoptions(precision={digits})", text])


def _compare(program: _Program) -> list[str]:
    if program.mutated:
        copies = [f"{name}_expected = {name}.clone()" for name in program.mutated]
        given = [f"{name}_expected" if name in program.mutated else name for name in program.arguments]
        lines = [*copies, program.call, f"{program.reference}({program.spelled(given)})"]
        for name in program.mutated:
            lines += [f'print("{name} after the operator: ", {name})']
            lines += [f'print("{name} after the reference:", {name}_expected)']
        return lines
    expected = f"{program.reference}({program.spelled(program.wide)})"
    if program.is_large:
        return [f"torch.testing.assert_close({program.call}, {expected}, equal_nan=True, check_dtype=False)"]
    return [f'print("operator: ", {program.call})', f'print("reference:", {expected})']


def _gradient(program: _Program) -> list[str]:
    if not program.differentiable:
        return _compare(program)
    inputs = ", ".join(program.differentiable)
    return [
        f"def gradients(function, {inputs}):",
        *(f"    {name} = {name}.detach().requires_grad_()" for name in program.differentiable),
        f"    results = function({program.spelled(program.arguments)})",
        "    results = results if isinstance(results, tuple) else (results,)",
        "    floating = [result for result in results if result.requires_grad]",
        "    weights = [torch.arange(1, 1 + out.numel()).reshape(out.shape).to(out) for out in floating]",
        f"    return torch.autograd.grad(floating, [{inputs}], weights, allow_unused=True)",
        "",
        "",
        f'print("operator: ", gradients({program.operator}, {inputs}))',
        f'print("reference:", gradients({program.reference}, {inputs}))',
    ]


def _twice(program: _Program) -> list[str]:
    return [f"first, second = {program.call}, {program.call}", "print(first, second, sep='\\n')"]


def _inputs(program: _Program) -> list[str]:
    tensors = [name for name, wide in zip(program.arguments, program.wide, strict=True) if name != wide]
    before = [f"{name}_before = {name}.clone()" for name in tensors]
    after = [f'print("{name} is what it was:", {name}.equal({name}_before))' for name in tensors]
    return [*before, program.call, *after]


def _fake(program: _Program) -> list[str]:
    return [
        f'print("operator:", {program.call})',
        "mode = FakeTensorMode(allow_non_fake_inputs=True)",
        "with mode:",
        f'    print("fake:    ", {program.call})',
    ]


def _compiled(program: _Program) -> list[str]:
    inside = program.spelled(program.arguments)
    return [
        f'compiled = torch.compile(lambda *a, **k: {program.operator}(*a, **k), fullgraph=True, backend="eager")',
        f"print(compiled({inside}))",
    ]


def _called(program: _Program) -> list[str]:
    return [program.call]


# How a property's finding shows itself, where it is not in the values that are returned.
_ENDS: dict[str, Callable[[_Program], list[str]]] = {
    "gradient": _gradient,
    "second gradient": _gradient,
    "func.grad": _gradient,
    "determinism": _twice,
    "threads": _twice,
    "inputs unchanged": _inputs,
    "fake": _fake,
    "compile": _compiled,
    "export": _called,
    "memory growth": _called,
    "outputs written": _called,
    "writes outside": _called,
    "reads outside": _called,
    "aliasing": _called,
    "bad arguments": _called,
    "vmap": _called,
    "jvp": _called,
}


def _code(value: Any, device: str) -> str:
    if isinstance(value, TensorRecipe):
        return tensor_code(value, device)
    if isinstance(value, list | tuple):
        items = [_code(item, device) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) < 100 else "[\n    {},\n]".format(",\n    ".join(items))
    if isinstance(value, float):
        import torch

        return number_text(value, torch.float64)
    return repr(value)


def _wide(name: str, value: Any) -> str:
    if _is_floating(value):
        return f"{name}.double()"
    if isinstance(value, tuple) and any(_is_floating(item) for item in value):
        return f"[item.double() for item in {name}]"
    return name


def _is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, TensorRecipe) and bool(getattr(torch, value.dtype).is_floating_point)


def _name_of_operator(subject: Subject) -> _Name:
    op = subject.call
    if isinstance(op, Operator):
        name = _importable(op, op.definition.module, op.definition.name, subject.parameters)
        hides = any(output.saved for output in op.definition.signature.outputs)
        return _Name(f"{name.expression}.torch_op", name.line) if name and hides else name or _Name("operator")
    function = getattr(op, "_init_fn", op)  # of torch.library.custom_op
    found = _importable(
        op, getattr(function, "__module__", None), getattr(function, "__name__", ""), subject.parameters
    )
    if found is None and subject.overload is not None:
        schema = subject.overload._schema
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        return _Name(f"torch.ops.{schema.name.replace('::', '.')}{overload}")
    return found or _Name("operator", f"# operator: {subject.name}; import it here")


def _name_of_reference(subject: Subject, operator: _Name) -> _Name:
    function = subject.reference
    if isinstance(subject.call, Operator) and function is subject.call.reference:
        return _Name(f"{operator.expression.removesuffix('.torch_op')}.reference")
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    found = _importable(function, module, name, (*subject.parameters, operator.expression), alias="reference")
    return found or _Name("reference", "# reference: the function passed as reference")


def _importable(
    thing: Any, module: str | None, name: str, taken: tuple[str, ...], alias: str = "operator"
) -> _Name | None:
    """Return how a module's attribute is imported, under another name where an argument has its own."""
    if not name.isidentifier() or getattr(sys.modules.get(module or ""), name, None) is not thing:
        return None
    if module == "__main__":
        return _Name(name)
    if name in taken:
        return _Name(alias, f"from {module} import {name} as {alias}")
    return _Name(name, f"from {module} import {name}")
