"""Reads a Python function as a signature: its annotations, one by one.

Invalid definitions are rejected here, at their declaration, with the reason and the alternative.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.dtypes import Generic
from opsmith.spec.gradient import check_number_of_gradients, check_passed_gradients, default_gradient_names
from opsmith.spec.kinds import (
    CAN_BE,
    as_declared,
    check_default,
    choices_in,
    is_jaxtyping,
    name_of,
    read_kind,
    read_tensor,
)
from opsmith.spec.signature import Kind, Output, Parameter, Signature
from opsmith.spec.structs import check_field_names, find_dataclass, keep_trailing_defaults, read_fields

__all__ = ["Choices", "read_signature"]


@dataclass(frozen=True)
class Choices:
    """The options of a definition; see `opsmith.op` for each of them."""

    outputs: tuple[str, ...] | None = None
    saved: frozenset[str] = frozenset()
    mutates: frozenset[str] = frozenset()
    nondifferentiable: frozenset[str] = frozenset()
    passes_gradient: Mapping[str, str] = field(default_factory=dict)
    contiguous: frozenset[str] = frozenset()
    preserve_format: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_signature(function: Callable[..., Any], choices: Choices, *, forward: Signature | None = None) -> Signature:
    """Return the signature of a definition; raises DefinitionError for invalid arguments or results.

    `forward` is set for a backward. That returns a gradient of every differentiable input unless outputs= names others,
    and its dataclasses' own defaults are not those of their fields: it is given every value.
    """
    name = function.__name__
    try:
        hints = _hints_of(function)
    except Exception as error:  # annotations are the user's code, and under PEP 563 they run here
        raise DefinitionError(f"{name}: an annotation cannot be evaluated: {error}") from error
    declared = inspect.signature(function).parameters
    parameters = keep_trailing_defaults(
        [
            argument
            for parameter in declared.values()
            for argument in _read_arguments(name, parameter, hints, choices, forward is None)
        ]
    )
    check_field_names(name, parameters, tuple(declared))
    if not any(parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) for parameter in parameters):
        raise DefinitionError(
            f"{name}: no argument is a required tensor, by whose device PyTorch could choose the kernel. Add one, or "
            "make this an ordinary function"
        )
    if "return" not in hints:
        raise DefinitionError(f"{name}: the return annotation is missing; annotate what is returned, or `-> None`")
    outputs = _read_outputs(name, hints["return"], choices, forward)
    if (mutated := sum(parameter.mutated for parameter in parameters)) > len(ascii_lowercase):
        limit = len(ascii_lowercase)  # the alias annotations of a schema, Tensor(a!) to Tensor(z!)
        raise DefinitionError(f"{name}: it mutates {mutated} tensors; an operator can mutate {limit}")
    signature = Signature(name, parameters, outputs, _read_dtypes(name, parameters, outputs, choices))
    _check_names(signature, choices)
    check_passed_gradients(signature)
    return signature


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, evaluated."""
    hints = typing.get_type_hints(function, include_extras=True)
    if sys.version_info < (3, 11):  # there an argument with the default None counts as optional
        written = inspect.get_annotations(function, eval_str=True)
        parameters = inspect.signature(function).parameters.values()
        hints |= {one.name: written[one.name] for one in parameters if one.default is None and one.name in written}
    return hints


def _read_arguments(
    operator: str, parameter: inspect.Parameter, hints: Mapping[str, Any], choices: Choices, class_defaults: bool
) -> tuple[Parameter, ...]:
    """Return the arguments that a parameter is in the schema: one, or the fields of a dataclass."""
    where = f"{operator}: the argument {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        instead = "take a list" if parameter.kind is parameter.VAR_POSITIONAL else "name each one"
        raise DefinitionError(f"{where} is variable in number, which a schema cannot express; {instead} instead")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise DefinitionError(f"{where} is positional-only, which a schema cannot express; remove the `/`")
    if parameter.name not in hints:
        is_self = parameter.name in ("self", "cls")
        hint = ". A method cannot be an operator: declare a function, and call it in the method" if is_self else ""
        raise DefinitionError(f"{where} has no annotation; it can be {CAN_BE}{hint}")
    if (found := find_dataclass(where, hints[parameter.name])) is not None:
        return read_fields(operator, parameter, found, with_defaults=class_defaults)
    return (_read_parameter(where, parameter, hints[parameter.name], choices),)


def _read_parameter(where: str, parameter: inspect.Parameter, hint: Any, choices: Choices) -> Parameter:
    kind, tensor = read_kind(where, hint)
    has_default = parameter.default is not parameter.empty
    if has_default:
        check_default(where, hint, kind, parameter.default)
        default = as_declared(kind, parameter.default)
    else:
        default = None
    mutated = parameter.name in choices.mutates
    if mutated and kind is Kind.TENSOR_LIST:
        raise DefinitionError(f"{where} is a list, which cannot be declared as mutated; pass its tensors one by one")
    if mutated and not kind.is_tensor:
        raise DefinitionError(f"{where} is declared as mutated but is not a tensor")
    return Parameter(
        parameter.name,
        kind,
        tensor,
        has_default,
        default,
        keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
        mutated=mutated,
        contiguous=parameter.name in choices.contiguous,
        differentiable=tensor is not None
        and tensor.is_floating
        and not mutated
        and parameter.name not in choices.nondifferentiable,
        passes_gradient=choices.passes_gradient.get(parameter.name),
        choices=choices_in(hint),
    )


def _read_outputs(operator: str, annotation: Any, choices: Choices, forward: Signature | None) -> tuple[Output, ...]:
    if annotation is None or annotation is type(None):
        annotations: tuple[Any, ...] = ()
    elif typing.get_origin(annotation) is tuple:
        annotations = typing.get_args(annotation)
    else:
        annotations = (annotation,)
    names = choices.outputs
    if names is None and forward is not None:
        check_number_of_gradients(forward, operator, len(annotations))
        names = default_gradient_names(forward)
    elif names is None:
        names = ("out",) if len(annotations) == 1 else tuple(f"out{index}" for index in range(len(annotations)))
    if len(names) != len(annotations):
        verb = "is" if len(annotations) == 1 else "are"
        raise DefinitionError(
            f"{operator}: outputs= has {len(names)} names, but {len(annotations)} of the results {verb} annotated"
        )
    outputs = []
    for name, item in zip(names, annotations, strict=True):
        where = f"{operator}: the output {name}"
        if not is_jaxtyping(item):
            raise DefinitionError(
                f"{where} is annotated {name_of(item)}; an output is a tensor, annotated as Float[Tensor, 'B N']. A "
                "number can be returned as a 0-dimensional tensor, a list as a stacked one"
            )
        tensor = read_tensor(where, item)
        saved = name in choices.saved
        differentiable = tensor.is_floating and not saved and name not in choices.nondifferentiable
        outputs.append(Output(name, tensor, saved, differentiable, choices.preserve_format.get(name)))
    if not outputs and not choices.mutates:
        raise DefinitionError(f"{operator}: it returns nothing and mutates nothing; declare mutates=('argument',)")
    return tuple(outputs)


def _read_dtypes(
    operator: str, parameters: tuple[Parameter, ...], outputs: tuple[Output, ...], choices: Choices
) -> dict[str, tuple[str, ...]]:
    """Return the element types of each template parameter, and check that a kernel can be chosen by its inputs."""
    by_letter: dict[str, Generic] = {}
    for tensor in [p.tensor for p in parameters if p.tensor] + [output.tensor for output in outputs]:
        if isinstance(tensor.element, Generic):
            known = by_letter.setdefault(tensor.element.letter, tensor.element)
            if known != tensor.element:
                raise DefinitionError(
                    f"{operator}: {tensor.text} and another annotation share the element type {known.letter} but allow "
                    "different types; use one of Float, Real, Int for all of them, or pin one (Float32, Int64)"
                )
    from_inputs = {p.tensor.letter for p in parameters if p.tensor and p.kind in (Kind.TENSOR, Kind.TENSOR_LIST)}
    if orphans := sorted(by_letter.keys() - from_inputs):
        raise DefinitionError(
            f"{operator}: no required input determines the element type {orphans[0]}; pin it (Float32, Int64)"
        )
    if unknown := sorted(choices.dtypes.keys() - by_letter.keys()):
        raise DefinitionError(f"{operator}: dtypes= sets {unknown[0]}, but no tensor is generic in it")
    chosen = {}
    for letter, generic in by_letter.items():
        names = choices.dtypes.get(letter, generic.default)
        if wrong := [name for name in names if name not in generic.allowed]:
            raise DefinitionError(
                f"{operator}: dtypes= has {wrong[0]}, but the annotation allows {', '.join(generic.allowed)}"
            )
        chosen[letter] = tuple(dict.fromkeys(names))
    return chosen


def _check_names(signature: Signature, choices: Choices) -> None:
    """Reject duplicate and unknown names."""
    inputs = {parameter.name for parameter in signature.parameters} | {struct.name for struct in signature.structs}
    outputs = [output.name for output in signature.outputs]
    for name in outputs:
        if not name.isidentifier():
            raise DefinitionError(f"{signature.name}: the output name {name!r} is not an identifier")
        if name in inputs or outputs.count(name) > 1:
            other = "an argument" if name in inputs else "another output"
            raise DefinitionError(
                f"{signature.name}: the output name {name!r} is already that of {other}; choose names with outputs="
            )
    tensors = {parameter.name for parameter in signature.tensors}
    for option, names, pool in (
        ("saved", choices.saved, set(outputs)),
        ("mutates", choices.mutates, tensors),
        ("nondifferentiable", choices.nondifferentiable, tensors | set(outputs)),
        ("passes_gradient", choices.passes_gradient.keys(), tensors),
        ("contiguous", choices.contiguous, tensors),
        ("preserve_format", choices.preserve_format.keys(), set(outputs)),
    ):
        if unknown := sorted(set(names) - pool):
            raise DefinitionError(f"{signature.name}: {option}= names {unknown[0]}; there is {', '.join(sorted(pool))}")
    if signature.outputs and not signature.visible_outputs:
        raise DefinitionError(f"{signature.name}: every output is saved, so callers would get nothing")
    for output_name, input_name in choices.preserve_format.items():
        source, output = signature.parameter(input_name), signature.output(output_name)
        if source is None or source.kind is not Kind.TENSOR or output is None:
            raise DefinitionError(
                f"{signature.name}: preserve_format= takes the format from {input_name}, which is not a tensor"
            )
        if source.tensor_type.shape.rank != output.tensor.shape.rank or output.tensor.shape.variadic_index is not None:
            raise DefinitionError(
                f"{signature.name}: preserve_format= needs equal ranks without variadic dimensions; {output_name} has "
                f"{output.tensor.text}, {input_name} has {source.tensor_type.text}"
            )
