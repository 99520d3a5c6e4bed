"""Writes the structs that stand for dataclasses in C++: what a kernel's file has to define, and what fills it.

A kernel's file defines the struct itself, so it needs nothing that is generated, in a build or in an editor. The
instantiating file sees it, because it includes the kernel's, and holds it against the definition field by field. The
binding knows fields alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from opsmith.codegen.cpp import SCALARS
from opsmith.spec.cpp_names import identifier
from opsmith.spec.definition import Kernel
from opsmith.spec.signature import Parameter, Signature, Struct

__all__ = ["fill_struct", "filler", "qualified_name", "struct_definition"]


def struct_definition(signature: Signature, struct: Struct, kernel: Kernel) -> str:
    """Return the struct that a kernel's file has to define, as a person would write it."""
    fields = [(_field_type(parameter, kernel), identifier(parameter.name)) for parameter in _fields(signature, struct)]
    lines = [
        f"  {kind} {', '.join(name for _, name in same)};"
        for kind, same in itertools.groupby(fields, key=lambda field: field[0])
    ]
    return "\n".join([f"struct {struct.cpp_name} {{", *lines, "};"])


def qualified_name(struct: Struct, kernel: Kernel) -> str:
    """Return the full name of a struct: it stands in the namespace of the kernel that takes it."""
    return "::".join(["", *kernel.entry.split("::")[:-1], struct.cpp_name])


def filler(struct: Struct) -> str:
    """Return the name of the function that makes a struct of its fields."""
    return f"fill_{struct.cpp_name}"


def fill_struct(signature: Signature, struct: Struct, kernel: Kernel) -> Iterator[str]:
    """Yield the function that makes a struct of its fields, and does not compile for one that has other fields."""
    name = qualified_name(struct, kernel)
    fields = _fields(signature, struct)
    heads = ", ".join(f"{_argument_type(field, kernel)} a{index}" for index, field in enumerate(fields))
    yield f"{name} {filler(struct)}({heads}) {{"
    for field in fields:
        kind, member = _field_type(field, kernel), f"{struct.cpp_name}::{identifier(field.name)}"
        same = f"std::is_same_v<decltype({name}::{identifier(field.name)}), {kind}>"
        yield f'  static_assert({same}, "{member} must be {kind}");'
    yield f"  {name} filled{{}};"
    for index, field in enumerate(fields):
        yield f"  filled.{identifier(field.name)} = a{index};"
    # A struct that has more fields than the dataclass is refused here: nothing would give them their values.
    yield f"  [[maybe_unused]] const auto& [{', '.join(f'f{index}' for index in range(len(fields)))}] = filled;"
    yield "  return filled;"
    yield "}"


def _fields(signature: Signature, struct: Struct) -> list[Parameter]:
    return [parameter for parameter in signature.parameters if parameter.struct == struct]


def _argument_type(field: Parameter, kernel: Kernel) -> str:
    spelling = SCALARS[field.kind]
    return spelling.native if kernel.style == "native" else spelling.view


def _field_type(field: Parameter, kernel: Kernel) -> str:
    kind = _argument_type(field, kernel)
    # A native kernel takes a text by reference, and its struct holds one.
    return kind.removeprefix("const ").removesuffix("&") if kind.endswith("&") else kind
