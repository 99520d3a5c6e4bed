"""Checks the arguments of a call against the definition, finds the sizes, and raises typed exceptions.

The binding makes the same checks in C++ on every call, and this module is asked only when one has failed, when an
operator runs its Python body, and when PyTorch traces it with fake tensors, where sizes are symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, DeviceError, DtypeError, ShapeError, SizeError
from opsmith.spec.dims import Expression, fits_64_bits
from opsmith.spec.signature import Kind, Parameter, Signature
from opsmith.spec.sizes import BindGroup, BindSize, CheckGroup, CheckSize, SizeProgram, SolveSize, Step

__all__ = ["Bound", "check_call", "evaluate"]

_NOT_BROADCAST = "; sizes are not broadcast here: pass what torch.broadcast_tensors returns"


@dataclass(frozen=True)
class Bound:
    """A checked call: every argument by name, the value of each size, and the sizes of each variadic group."""

    arguments: Mapping[str, Any]
    sizes: Mapping[str, Any]
    groups: Mapping[str, tuple[Any, ...]]


def check_call(signature: Signature, sizes: SizeProgram, arguments: Mapping[str, Any]) -> Bound:
    """Check devices, ranks, element types and sizes; raises DeviceError, ShapeError or DtypeError."""
    _check_devices(signature, arguments)
    for parameter, tensor in _tensors(signature.tensors, arguments):
        _check_layout(signature, parameter, tensor)
        _check_rank(signature, parameter, tensor)
    _check_dtypes(signature, arguments)
    values: dict[str, Any] = {
        parameter.name: arguments[parameter.name] for parameter in signature.parameters if parameter.kind is Kind.INT
    }
    groups: dict[str, tuple[Any, ...]] = {}
    state = _State(signature, sizes, arguments, values, groups)
    for step in sizes.steps:
        state.run(step)
    for parameter, steps in sizes.optional:
        if arguments[parameter.name] is not None:
            local = _State(signature, sizes, arguments, dict(values), dict(groups))
            for step in steps:
                local.run(step)
    _check_writable(signature, arguments)
    return Bound(arguments, values, groups)


def evaluate(signature: Signature, expression: Expression, sizes: Mapping[str, Any]) -> Any:
    """Return the value of a size in a call; raises SizeError if it divides by zero or exceeds 64 bits."""
    try:
        return expression.evaluate(sizes)
    except (ZeroDivisionError, OverflowError) as error:
        values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(expression.names))
        values = f" with {values}" if values else ""
        why = "divides by zero" if isinstance(error, ZeroDivisionError) else "does not fit into 64 bits"
        raise SizeError(f"{signature.name}(): the size {expression.text} {why}{values}") from None


@dataclass
class _State:
    signature: Signature
    program: SizeProgram
    arguments: Mapping[str, Any]
    values: dict[str, Any]
    groups: dict[str, tuple[Any, ...]]

    def run(self, step: Step) -> None:
        parameter = step.parameter
        given = self.arguments[parameter.name]
        tensors: list[Tensor] = list(given) if parameter.kind is Kind.TENSOR_LIST else [given]
        if not tensors and isinstance(step, (BindSize, SolveSize)):
            raise ShapeError(
                f"{self.signature.name}(): {parameter.name} is an empty list, and sizes are taken from its tensors"
            )
        for index, tensor in enumerate(tensors):
            self._step(step, parameter, tensor, first=index == 0)

    def _step(self, step: Step, parameter: Parameter, tensor: Tensor, *, first: bool) -> None:
        match step:
            case BindSize():
                if first:
                    self.values[step.name] = tensor.shape[step.axis]
                elif not _holds(tensor.shape[step.axis] == self.values[step.name]):
                    self._refuse(parameter, tensor, step.axis, self.values[step.name], step.name, "")
            case SolveSize():
                if first:
                    self._solve(step, parameter, tensor)
                else:
                    self._check(parameter, tensor, step.axis, step.expression)
            case CheckSize():
                self._check(parameter, tensor, step.axis, step.expression)
            case BindGroup() | CheckGroup():
                found = self._group(step, parameter, tensor)
                expected = self.groups.setdefault(step.group, found)
                if len(found) != len(expected) or not all(map(_holds, map(operator.eq, found, expected))):
                    is_broadcastable = parameter.tensor_type.shape.is_group and _can_broadcast(found, expected)
                    raise ShapeError(
                        f"{self.signature.name}(): {parameter.name} has the sizes {_tuple(found)} for *{step.group}, "
                        f"expected {_tuple(expected)} (from {self.program.group_source[step.group]})"
                        f"{_NOT_BROADCAST if is_broadcastable else ''}"
                    )

    def _solve(self, step: SolveSize, parameter: Parameter, tensor: Tensor) -> None:
        found = tensor.shape[step.axis]
        scale = evaluate(self.signature, step.affine.scale, self.values)
        rest = found - evaluate(self.signature, step.affine.offset, self.values)
        is_too_large = isinstance(rest, int) and not fits_64_bits(rest)
        if is_too_large or scale == 0 or not _holds(rest % scale == 0) or not _holds(rest // scale >= 0):
            raise ShapeError(
                f"{self.signature.name}(): {parameter.name} has size {found} in dimension {step.axis % tensor.dim()}, "
                f"which is not {step.expression.text} for any {step.affine.name}"
            )
        self.values[step.affine.name] = rest // scale

    def _check(self, parameter: Parameter, tensor: Tensor, axis: int, expression: Expression) -> None:
        expected = evaluate(self.signature, expression, self.values)
        if not _holds(tensor.shape[axis] == expected):
            self._refuse(parameter, tensor, axis, expected, expression.text, self._named(expression))

    def _group(self, step: BindGroup | CheckGroup, parameter: Parameter, tensor: Tensor) -> tuple[Any, ...]:
        behind = parameter.tensor_type.shape.rank - step.index - 1
        return tuple(tensor.shape[step.index : tensor.dim() - behind])

    def _named(self, expression: Expression) -> str:
        if expression.text in expression.names:  # its value stands there already
            return f" ({self.program.source.get(expression.text, 'here')})"
        words = [
            f"{name} = {self.values[name]} ({self.program.source.get(name, 'here')})"
            for name in sorted(expression.names)
        ]
        return f" with {', '.join(words)}" if words else ""

    def _refuse(self, parameter: Parameter, tensor: Tensor, axis: int, expected: Any, text: str, names: str) -> None:
        value = "" if text.isdigit() else f" = {expected}"
        raise ShapeError(
            f"{self.signature.name}(): {parameter.name} has size {tensor.shape[axis]} in dimension "
            f"{axis % tensor.dim()}, expected {text}{value}{names}"
        )


def _tensors(parameters: Sequence[Parameter], arguments: Mapping[str, Any]) -> Iterator[tuple[Parameter, Tensor]]:
    """Yield every tensor of a call with its parameter: those of lists one by one, absent ones not at all."""
    for parameter in parameters:
        value = arguments[parameter.name]
        if parameter.kind is Kind.TENSOR_LIST:
            yield from ((parameter, tensor) for tensor in value)
        elif value is not None:
            yield parameter, value


def _check_devices(signature: Signature, arguments: Mapping[str, Any]) -> None:
    ordered = sorted(signature.tensors, key=lambda parameter: parameter.kind is not Kind.TENSOR)
    first: tuple[Parameter, Tensor] | None = None
    for parameter, tensor in _tensors(ordered, arguments):
        if first is None:
            first = (parameter, tensor)
        elif not _is_one_device(tensor.device, first[1].device):
            raise DeviceError(
                f"{signature.name}(): {parameter.name} is on {tensor.device}, but {first[0].name} is on "
                f"{first[1].device}"
            )
    if first is None:
        name = ordered[0].name
        raise ShapeError(f"{signature.name}(): {name} is an empty list, and the operator has no other tensor")


def _check_layout(signature: Signature, parameter: Parameter, tensor: Tensor) -> None:
    if tensor.layout is not torch.strided:
        raise ArgumentTypeError(
            f"{signature.name}(): {parameter.name} has the layout {tensor.layout}, expected torch.strided; convert it "
            "with to_dense()"
        )


def _is_one_device(a: torch.device, b: torch.device) -> bool:
    # There is one CPU: torch.device("cpu") has the index None and torch.device("cpu:0") has 0.
    return a.type == b.type and (a.type == "cpu" or a.index == b.index)


def _check_rank(signature: Signature, parameter: Parameter, tensor: Tensor) -> None:
    shape = parameter.tensor_type.shape
    variadic = shape.variadic_index is not None
    expected, found = shape.rank - variadic, tensor.dim()
    if found < expected if variadic else found != expected:
        raise ShapeError(
            f"{signature.name}(): {parameter.name} has {found} dimension{'' if found == 1 else 's'}, expected "
            f"{'at least ' if variadic else ''}{expected}: {parameter.tensor_type.text}"
        )


def _check_dtypes(signature: Signature, arguments: Mapping[str, Any]) -> None:
    ordered = sorted(signature.tensors, key=lambda parameter: parameter.kind is not Kind.TENSOR)
    letters: dict[str, tuple[Parameter, torch.dtype]] = {}
    for parameter, tensor in _tensors(ordered, arguments):
        letter = parameter.tensor_type.letter
        found = str(tensor.dtype).removeprefix("torch.")
        if letter in letters:
            first, dtype = letters[letter]
            if tensor.dtype != dtype:
                raise DtypeError(
                    f"{signature.name}(): {parameter.name} is {found}, expected {str(dtype).removeprefix('torch.')} as "
                    f"{first.name}"
                )
            continue
        allowed = signature.allowed(parameter.tensor_type)
        if found not in allowed:
            words = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
            raise DtypeError(f"{signature.name}(): {parameter.name} is {found}, expected {words}")
        if letter is not None:
            letters[letter] = (parameter, tensor.dtype)


def _check_writable(signature: Signature, arguments: Mapping[str, Any]) -> None:
    for parameter, tensor in _tensors(signature.mutated, arguments):
        if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            raise ShapeError(
                f"{signature.name}(): {parameter.name} is written to, but it is expanded: several of its elements share "
                "one address"
            )


def _holds(condition: bool | torch.SymBool) -> bool:
    """Whether a comparison of sizes holds. One that is known only when the graph runs becomes an assertion of the graph."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if guard_or_false(condition):
        return True
    if guard_or_false(torch.sym_not(condition)):
        return False
    torch._check(condition)
    return True


def _can_broadcast(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether PyTorch's operators would take the two together; False if sizes are only partly known."""
    if not all(isinstance(size, int) for size in (*a, *b)):
        return False
    return all(one == other or 1 in (one, other) for one, other in zip(reversed(a), reversed(b), strict=False))


def _tuple(sizes: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, sizes))})"
