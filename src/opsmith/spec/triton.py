"""Matches a Triton kernel's parameters with a definition: each gets its value from the parameter's name.

The kernel's file is parsed, not imported: a definition knows its kernel's arguments where Triton is not installed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opsmith.spec.definition import Definition
from opsmith.spec.kernel_arguments import KernelArgument, find_complaints, misfit
from opsmith.spec.launch import Launch
from opsmith.spec.quantities import Quantity, quantities, tensors_of, view_rank
from opsmith.spec.signature import Kind, Parameter, Signature

__all__ = ["KernelFunction", "find_function", "match_arguments", "triton_prototype"]


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
            raise misfit(definition, function, triton_prototype(definition), argument)
        found.append(argument)
    for complaint in find_complaints(signature, kernel.launch, tuple(found), known):
        raise misfit(definition, function, triton_prototype(definition), complaint)
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
