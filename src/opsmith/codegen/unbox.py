"""Generates the unboxing of a call's arguments from the dispatcher's stack: `arg_<name>` for each of them."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.spec.signature import Kind, Signature

__all__ = ["unbox"]

# Each argument's line, in which {name} is the argument and {value} its place on the stack.
_LINES = {
    Kind.TENSOR: "Held {name}(to_tensor({value}));",
    Kind.OPTIONAL_TENSOR: "Held {name}(to_optional_tensor({value}));",
    Kind.TENSOR_LIST: "HeldList {name}({value});",
    Kind.INT: "const auto {name} = to_number<int64_t>({value});",
    Kind.FLOAT: "const auto {name} = to_number<double>({value});",
    Kind.BOOL: "const auto {name} = to_number<bool>({value});",
    Kind.STR: "HeldText {name}({value});",
    Kind.INT_LIST: "HeldNumbers<int64_t> {name}({value});",
    Kind.FLOAT_LIST: "HeldNumbers<double> {name}({value});",
    Kind.OPTIONAL_INT: "const auto {name} = to_optional<int64_t>({value});",
    Kind.OPTIONAL_FLOAT: "const auto {name} = to_optional<double>({value});",
    Kind.OPTIONAL_BOOL: "const auto {name} = to_optional<bool>({value});",
}


def unbox(signature: Signature) -> Iterator[str]:
    """Yield the lines that define the arguments, and then read those which could fail at that.

    In this order, because whatever is not taken from the stack by then would never be freed.
    """
    for index, parameter in enumerate(signature.parameters):
        unused = "[[maybe_unused]] " if parameter.tensor is None else ""
        line = _LINES[parameter.kind].format(name=f"arg_{parameter.name}", value=f"stack[{index}]")
        yield f"  {unused}{line}"
    held = (Kind.STR, Kind.INT_LIST, Kind.FLOAT_LIST)
    names = [f"arg_{p.name}" for p in signature.parameters if p.kind.is_tensor or p.kind in held]
    yield f"  read({', '.join(names)});"
