"""Matches a Triton kernel's parameters with a definition: each gets its value from the parameter's name.

The kernel's file is parsed, not imported: a definition knows its kernel's arguments where Triton is not installed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opsmith.errors import SignatureError
from opsmith.spec.definition import Definition
from opsmith.spec.launch import Constant, Launch
from opsmith.spec.quantities import Quantity, quantities, tensors_of, view_rank
from opsmith.spec.signature import Kind, Parameter, Signature

__all__ = ["KernelArgument", "KernelFunction", "find_function", "match_arguments", "triton_prototype"]


@dataclass(frozen=True)
class KernelFunction:
    """A `@triton.jit` function as its file has it: its parameters in order, and which of them are `tl.constexpr`."""

    name: str
    line: int
    parameters: tuple[str, ...]
    constants: frozenset[str]
    is_jit: bool

    @property
    def declaration(self) -> str:
        """The function's first line, without its body."""
        return _declaration(self.name, self.parameters, self.constants)


@dataclass(frozen=True)
class KernelArgument:
    """One parameter of a kernel and what it gets.

    A `tensor` is passed as a pointer, or as None where it is optional and not given. A `constant` is the
    configuration's; a `choice` is a bool argument or a Literal, and a kernel is compiled for each of its values.
    """

    name: str
    role: Literal["tensor", "quantity", "number", "flag", "constant", "choice"]
    quantity: Quantity | None = None
    parameter: Parameter | None = None

    @property
    def values(self) -> tuple[Constant | None, ...]:
        """What a kernel is compiled for each of: a choice's values, and whether an optional tensor is given."""
        if self.role == "choice":
            assert self.parameter is not None
            return self.parameter.choices or (False, True)
        if self.role == "tensor" and self.parameter is not None and self.parameter.kind is Kind.OPTIONAL_TENSOR:
            return (False, True)
        return ()


def find_function(source: str, name: str) -> KernelFunction | None:
    """Return the function of a name in a file's text, or None if there is none. Raises SyntaxError."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            constants = frozenset(
                argument.arg
                for argument in arguments
                if argument.annotation is not None and ast.unparse(argument.annotation).endswith("constexpr")
            )
            is_jit = any(
                ast.unparse(decorator).partition("(")[0].rpartition(".")[2] == "jit"
                for decorator in node.decorator_list
            )
            return KernelFunction(name, node.lineno, tuple(each.arg for each in arguments), constants, is_jit)
    return None


def match_arguments(definition: Definition, function: KernelFunction) -> tuple[KernelArgument, ...]:
    """Return what each parameter of a kernel gets; raises SignatureError, with the prototype, if one does not fit."""
    kernel = definition.kernels["cuda"]
    assert kernel.launch is not None
    signature = definition.signature
    known = quantities(signature)
    found = []
    for name in function.parameters:
        argument = _match(signature, kernel.launch, name, known, is_constant=name in function.constants)
        if isinstance(argument, str):
            raise _misfit(definition, function, argument)
        found.append(argument)
    for complaint in _complaints(signature, kernel.launch, tuple(found), known):
        raise _misfit(definition, function, complaint)
    return tuple(found)


def triton_prototype(definition: Definition) -> str:
    """Return the kernel's first lines with every parameter that it may take; sizes and strides may be left out."""
    signature = definition.signature
    kernel = definition.kernels["cuda"]
    assert kernel.launch is not None
    tensors = tensors_of(signature)
    inputs = [parameter.name for parameter in signature.parameters if parameter.kind is not Kind.INT]
    outputs = [output.name for output in signature.outputs]
    numbers = [
        item.name
        for item in quantities(signature).values()
        if item.kind == "argument" or (item.kind == "size" and not item.name.startswith(f"{item.tensor}_size_"))
    ]
    strides = (
        []
        if signature.group
        else [f"{name}_stride_{axis}" for name in tensors for axis in range(view_rank(signature, name))]
    )
    constants = [*kernel.launch.constants]
    choices = [parameter.name for parameter in signature.parameters if parameter.choices]
    names = [*dict.fromkeys([*inputs, *outputs, *numbers, *strides, *constants])]
    return _declaration(kernel.entry, tuple(names), frozenset([*constants, *choices]))


def _declaration(name: str, parameters: tuple[str, ...], constants: frozenset[str]) -> str:
    words = [f"{each}: tl.constexpr" if each in constants else each for each in parameters]
    return f"def {name}({', '.join(words)})"


def _match(  # noqa: PLR0911 - one line for each kind of parameter
    signature: Signature, launch: Launch, name: str, known: dict[str, Quantity], *, is_constant: bool
) -> KernelArgument | str:
    """Return what a parameter of this name gets, or what is wrong with it."""
    parameter = next((each for each in signature.parameters if each.name == name), None)
    if name in launch.constants:
        if not is_constant:
            return f"`{name}` is a constant of the launch, so the kernel has to annotate it `tl.constexpr`"
        if parameter is not None or name in known:
            return f"`{name}` is a constant of the launch and a value of the call; give one of them another name"
        return KernelArgument(name, "constant")
    if parameter is not None:
        return _match_parameter(parameter, is_constant=is_constant)
    if signature.output(name) is not None:
        return (
            f"`{name}` is an output, a pointer, and no `tl.constexpr`"
            if is_constant
            else KernelArgument(name, "tensor")
        )
    if name in known:
        if is_constant:
            return (
                f"`{name}` differs from call to call, so it cannot be a constant. Take it without `tl.constexpr`, or "
                f'compile for some values: configs=[{{"{name.upper()}_64": 64, "when": "{name} == 64"}}, ...]'
            )
        return KernelArgument(name, "quantity", known[name])
    return f"`{name}` is no tensor, size, stride or number of the definition, and no constant of the launch"


def _match_parameter(  # noqa: PLR0911 - likewise
    parameter: Parameter, *, is_constant: bool
) -> KernelArgument | str:
    name, kind = parameter.name, parameter.kind
    if kind in (Kind.TENSOR, Kind.OPTIONAL_TENSOR):
        if is_constant:
            return f"`{name}` is a tensor, a pointer, and no `tl.constexpr`"
        return KernelArgument(name, "tensor", parameter=parameter)
    if parameter.choices or kind is Kind.BOOL:
        if is_constant:
            return KernelArgument(name, "choice", parameter=parameter)
        if kind is Kind.BOOL:
            return KernelArgument(name, "flag", parameter=parameter)
    if kind is Kind.FLOAT and not is_constant:
        return KernelArgument(name, "number", parameter=parameter)
    if kind is Kind.INT and not is_constant:
        return KernelArgument(name, "quantity", Quantity(name, "argument"), parameter)
    if kind is Kind.STR and parameter.choices:
        return f"`{name}` is text, which a kernel takes as `tl.constexpr`"
    words = "has any value" if kind in (Kind.INT, Kind.FLOAT) else f"is {kind.value}"
    advice = (
        "as `tl.constexpr` a kernel takes bools and Literals"
        if is_constant
        else "a Triton kernel takes tensors, ints, floats and bools, and Literals as `tl.constexpr`"
    )
    return f"`{name}` {words}, and {advice}"


def _complaints(
    signature: Signature, launch: Launch, arguments: tuple[KernelArgument, ...], known: dict[str, Quantity]
) -> Iterator[str]:
    """Yield what the kernel or its launch lacks."""
    taken = {argument.name for argument in arguments}
    for name in _names(signature):
        if name not in taken:
            yield f"the kernel does not take `{name}`"
    for name in launch.constants:
        if name not in taken:
            yield f"the launch gives the constant `{name}`, which the kernel does not take"
    for name in tensors_of(signature):
        rank = view_rank(signature, name)
        strides = [f"{name}_stride_{axis}" in taken for axis in range(rank)]
        if any(strides[:-1]) and not all(strides[:-1]):
            yield f"the kernel takes some strides of `{name}`; take all of them, all but the last, or none"
        if any(strides[-1:]) and not all(strides):
            yield f"the kernel takes `{name}_stride_{rank - 1}` but not the strides before it"
        output = signature.output(name)
        if output is not None and output.format_of and not all(strides):
            yield f"`{name}` has the memory format of `{output.format_of}`, so the kernel has to take all of its strides"
    numbers = {*known, *launch.configs[0].numbers}
    parts = [(axis.text, axis.names) for axis in launch.axes]
    parts += [(config.when.text, config.when.names) for config in launch.configs if config.when is not None]
    for text, names in parts:
        if missing := sorted(names - numbers):
            yield (
                f"the launch computes {text!r}, and `{missing[0]}` is no number of the definition. There are "
                f"{', '.join(sorted(numbers))}"
            )


def _names(signature: Signature) -> list[str]:
    return [each.name for each in signature.parameters] + [each.name for each in signature.outputs]


def _misfit(definition: Definition, function: KernelFunction, complaint: str) -> SignatureError:
    kernel = definition.kernels["cuda"]
    return SignatureError(
        f"{kernel.sources[0]}:{function.line}: the kernel `{function.name}` does not match its definition "
        f"({definition.location}): {complaint}\n\n"
        f"    the definition offers  {triton_prototype(definition)}\n"
        f"    the file has           {function.declaration}\n\n"
        "Parameters are matched by name, in any order; sizes and strides that the kernel does not need are left out. "
        f"`opsmith stub {definition.module}` prints the prototype of every kernel of this module."
    )
