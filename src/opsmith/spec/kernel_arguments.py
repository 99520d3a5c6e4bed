"""Says what each parameter of a kernel gets that is launched by its definition, in whatever language the kernel is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from opsmith.errors import SignatureError
from opsmith.spec.definition import Definition
from opsmith.spec.launch import Constant, Launch
from opsmith.spec.quantities import Quantity, tensors_of, view_rank
from opsmith.spec.signature import Kind, Parameter, Signature

__all__ = ["KernelArgument", "find_complaints", "find_missing", "find_unknown_sizes", "misfit"]


@dataclass(frozen=True)
class KernelArgument:
    """One parameter of a kernel and what it gets.

    A `tensor` is passed as a pointer. A `constant` is the configuration's; a `choice` is a bool argument or a Literal, and
    a kernel is compiled for each of its values. So it is for whether an optional tensor is given, where `parameter` names
    that: it is then passed or left out. `type` is the C++ type that the kernel declares for a number. A `stream` is what a
    function launches on that does so itself.
    """

    name: str
    role: Literal["tensor", "quantity", "number", "flag", "constant", "choice", "stream"]
    quantity: Quantity | None = None
    parameter: Parameter | None = None
    type: str = ""

    @property
    def values(self) -> tuple[Constant | None, ...]:
        """What a kernel is compiled for each of: a choice's values, and whether an optional tensor is given."""
        if self.role == "choice":
            assert self.parameter is not None
            return self.parameter.choices or (False, True)
        if self.role == "tensor" and self.parameter is not None and self.parameter.kind is Kind.OPTIONAL_TENSOR:
            return (False, True)
        return ()


def find_complaints(
    signature: Signature, launch: Launch, arguments: tuple[KernelArgument, ...], known: dict[str, Quantity]
) -> Iterator[str]:
    """Yield what a kernel or its launch lacks, whose parameters each have something to get."""
    yield from find_missing(signature, launch, arguments)
    taken = {argument.name for argument in arguments}
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
    yield from find_unknown_sizes(launch, known)


def find_missing(signature: Signature, launch: Launch, arguments: tuple[KernelArgument, ...]) -> Iterator[str]:
    """Yield what a kernel has to take and does not."""
    taken = {argument.name for argument in arguments}
    for name in _names(signature):
        if name not in taken:
            yield f"the kernel does not take `{name}`"
    for name in launch.constants:
        if name not in taken:
            yield f"the launch gives the constant `{name}`, which the kernel does not take"


def find_unknown_sizes(launch: Launch, known: dict[str, Quantity]) -> Iterator[str]:
    """Yield what a launch computes of something that is no number of the definition."""
    numbers = {*known, *launch.configs[0].numbers}
    parts = [(expression.text, expression.names) for expression in launch.expressions]
    parts += [(config.when.text, config.when.names) for config in launch.configs if config.when is not None]
    for text, names in parts:
        if missing := sorted(names - numbers):
            yield (
                f"the launch computes {text!r}, and `{missing[0]}` is no number of the definition. There are "
                f"{', '.join(sorted(numbers))}"
            )


class Function(Protocol):
    """A kernel's function as its file has it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def line(self) -> int:
        """The line that declares it."""

    @property
    def declaration(self) -> str:
        """Its first line, without its body."""


def misfit(definition: Definition, function: Function, prototype: str, complaint: str) -> SignatureError:
    """Return the error for a kernel that does not fit its definition, with both prototypes."""
    kernel = definition.kernels["cuda"]
    return SignatureError(
        f"{kernel.sources[0]}:{function.line}: the kernel `{function.name}` does not match its definition "
        f"({definition.location}): {complaint}\n\n"
        f"    the definition offers  {prototype}\n"
        f"    the file has           {function.declaration}\n\n"
        "Parameters are matched by name, in any order; sizes and strides that the kernel does not need are left out. "
        f"`opsmith stub {definition.module}` prints the prototype of every kernel of this module."
    )


def _names(signature: Signature) -> list[str]:
    return [each.name for each in signature.parameters] + [each.name for each in signature.outputs]
