"""Plans how the sizes of a call are found and checked: a program of small steps, derived once from the shapes.

The same steps are run in Python (validation, the fake kernel) and printed as C++ (the binding), so the two can never
disagree about what an operator accepts. Names are bound in three passes: plain names first, then names that one size
determines (`3*S` gives S), then every remaining size is compared with its expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Affine, Expression
from opsmith.spec.signature import Kind, Parameter, Signature

__all__ = ["BindGroup", "BindSize", "CheckGroup", "CheckSize", "SizeProgram", "SolveSize", "Step", "plan_sizes"]


@dataclass(frozen=True)
class BindSize:
    """The size of an axis gives a name its value."""

    parameter: Parameter
    axis: int
    name: str


@dataclass(frozen=True)
class SolveSize:
    """The size of an axis, `scale * name + offset`, determines a name; it must divide without rest."""

    parameter: Parameter
    axis: int
    affine: Affine
    expression: Expression


@dataclass(frozen=True)
class CheckSize:
    """The size of an axis must equal an expression over names that are known by then."""

    parameter: Parameter
    axis: int
    expression: Expression


@dataclass(frozen=True)
class BindGroup:
    """The sizes that a variadic group covers give the group its value."""

    parameter: Parameter
    index: int
    group: str


@dataclass(frozen=True)
class CheckGroup:
    """The sizes that a variadic group covers must equal those it already has."""

    parameter: Parameter
    index: int
    group: str


Step = BindSize | SolveSize | CheckSize | BindGroup | CheckGroup


@dataclass(frozen=True)
class SizeProgram:
    """The steps for the arguments that are always there, and those for each optional tensor where it is given.

    `source` tells for each name which argument its value comes from, and `group_source` for each variadic group; both
    are for error messages.
    """

    steps: tuple[Step, ...]
    optional: tuple[tuple[Parameter, tuple[Step, ...]], ...]
    source: dict[str, str]
    group_source: dict[str, str]


def plan_sizes(signature: Signature) -> SizeProgram:
    """Derive the steps; raises DefinitionError if a size can never be determined."""
    known: dict[str, str] = {
        parameter.name: "the argument" for parameter in signature.parameters if parameter.kind is Kind.INT
    }
    groups: dict[str, str] = {}
    required = [parameter for parameter in signature.tensors if parameter.kind is Kind.TENSOR]
    required += [parameter for parameter in signature.tensors if parameter.kind is Kind.TENSOR_LIST]
    steps = tuple(_plan(signature, required, known, groups))
    _check_output_groups(signature, groups)
    optional = []
    for parameter in signature.tensors:
        if parameter.kind is Kind.OPTIONAL_TENSOR:
            local, local_groups = dict(known), dict(groups)
            optional.append((parameter, tuple(_plan(signature, [parameter], local, local_groups))))
            _check_local(signature, parameter, set(local) - set(known))
    return SizeProgram(steps, tuple(optional), known, groups)


def _axes(parameter: Parameter) -> Iterator[tuple[int, Expression]]:
    shape = parameter.tensor_type.shape
    for index, dim in enumerate(shape.dims):
        if dim.expression is not None:
            yield shape.axis(index), dim.expression


def _plan(
    signature: Signature, parameters: Iterable[Parameter], known: dict[str, str], groups: dict[str, str]
) -> Iterator[Step]:
    """Yield the steps for some parameters; adds what they determine to `known` and `groups`."""
    parameters = list(parameters)
    open_sizes = [(parameter, axis, expression) for parameter in parameters for axis, expression in _axes(parameter)]
    for parameter in parameters:
        shape = parameter.tensor_type.shape
        if (group := shape.group) is not None:
            index = shape.variadic_index
            assert index is not None
            yield (CheckGroup if group in groups else BindGroup)(parameter, index, group)
            groups.setdefault(group, parameter.name)
    for entry in tuple(open_sizes):
        parameter, axis, expression = entry
        name = expression.name
        if name is not None and name not in known:
            known[name] = f"from {parameter.name}"
            open_sizes.remove(entry)
            yield BindSize(parameter, axis, name)
    while (solvable := _find_solvable(open_sizes, known)) is not None:
        entry, affine = solvable
        known[affine.name] = f"from {entry[0].name}"
        open_sizes.remove(entry)
        yield SolveSize(entry[0], entry[1], affine, entry[2])
    for parameter, axis, expression in open_sizes:
        if missing := sorted(expression.names - known.keys()):
            raise DefinitionError(
                f"{signature.name}: the size {expression.text!r} of {parameter.name} needs {', '.join(missing)}, which "
                "no tensor and no int argument determines. Give it to a tensor as a plain dimension, or add an "
                f"argument `{missing[0]}: int`"
            )
        yield CheckSize(parameter, axis, expression)


_Open = tuple[Parameter, int, Expression]


def _find_solvable(open_sizes: list[_Open], known: dict[str, str]) -> tuple[_Open, Affine] | None:
    """Return the first size that has one unknown name and is affine in it."""
    for entry in open_sizes:
        unknown = entry[2].names - known.keys()
        if len(unknown) == 1:
            affine = entry[2].affine_in(*unknown)
            if affine is not None:
                return entry, affine
    return None


def _check_local(signature: Signature, parameter: Parameter, local: set[str]) -> None:
    """Refuse a name that only an optional tensor determines and something else needs."""
    elsewhere = {name for output in signature.outputs for name in output.tensor.shape.names}
    for other in signature.tensors:
        if other is not parameter:
            elsewhere |= other.tensor_type.shape.names
    if clash := sorted(local & elsewhere):
        raise DefinitionError(
            f"{signature.name}: {clash[0]} is known only if the optional tensor {parameter.name} is given, but is used "
            f"elsewhere too. Give {clash[0]} to a required tensor, or add an argument `{clash[0]}: int`"
        )


def _check_output_groups(signature: Signature, groups: dict[str, str]) -> None:
    for output in signature.outputs:
        shape = output.tensor.shape
        if shape.variadic_index is not None and shape.group not in groups:
            raise DefinitionError(
                f"{signature.name}: the output {output.name} has the variadic dimension "
                f"{shape.dims[shape.variadic_index].text!r}, whose sizes no required input determines"
            )
        for dim in shape.dims:
            unknown = dim.expression.names & signature.data_dependent if dim.expression else frozenset()
            if unknown and dim.expression is not None and dim.expression.name is None:
                raise DefinitionError(
                    f"{signature.name}: the output {output.name} has the size {dim.text}, for which no input determines "
                    f"{', '.join(sorted(unknown))}. A size that only the kernel knows must be a plain name"
                )
        if any(dim.expression is None and not dim.variadic for dim in shape.dims):
            raise DefinitionError(
                f"{signature.name}: the output {output.name} has an anonymous dimension `_`; an output's sizes must be "
                "named, so that it can be allocated (a new name stands for a size that only the kernel knows)"
            )
