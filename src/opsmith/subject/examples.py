"""Turns a user's example calls into cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError, describe
from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.structs import flattener
from opsmith.spec.signature import Signature
from opsmith.subject.case import Case, TensorRecipe

__all__ = ["Examples", "as_case", "completed", "dtypes_of", "flattened", "labelled", "numbers_of"]

Examples = Callable[[], Iterable[Any]] | Iterable[Any]


def labelled(examples: Examples) -> list[tuple[str, Any]]:
    """Return examples, or what a function makes, with their names, "" where they have none.

    Raises ArgumentError for a name without a call, for what is not a collection of calls, and if the function raises.
    """
    source = _name_of(examples)
    try:
        found = examples() if callable(examples) else examples
        if isinstance(found, Iterable) and not isinstance(found, Mapping | Tensor | str):
            return [("", example) for example in found]
    except Exception as error:
        raise ArgumentError(f"{source} raises {type(error).__name__}: {error}") from error
    if not isinstance(found, Mapping):
        verb = "returns" if callable(examples) else "are"
        raise ArgumentError(
            f"{source} {verb} {describe(found)}; give a list of calls, each the tuple of its arguments: "
            "[(torch.randn(3), 2.0)]"
        )
    return _named(found)


def _name_of(examples: Examples) -> str:
    if not callable(examples):
        return "the examples"
    code = getattr(examples, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the function of examples {getattr(examples, '__qualname__', '')}{place}"


def _named(examples: Mapping[str, Any]) -> list[tuple[str, Any]]:
    for label, example in examples.items():
        if not isinstance(example, tuple | list | Mapping):
            found = type(example).__name__
            raise ArgumentError(
                f"the example {label!r} is a {found}; give each call its arguments: "
                "{'small': {'x': torch.randn(3)}}, or give a list of calls"
            )
    return list(examples.items())


def as_case(example: Any, parameters: tuple[str, ...], signature: Signature | None = None) -> Case:
    """Return an example as a case; raises ArgumentError for what is not a call.

    With the signature of an operator, also for one that lacks an argument or has one of another kind.
    """
    values = _by_name(example, parameters)
    if signature is not None:
        try:
            bind_arguments(signature, (), values)
        except ArgumentError as error:
            raise ArgumentError(f"an example does not fit: {error}") from error
    return Case({name: _as_recipe(value) for name, value in values.items()})


def _by_name(example: Any, parameters: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(example, Mapping):
        values = dict(example)
    elif isinstance(example, tuple | list):
        values = dict(zip(parameters, example, strict=False))
        if len(example) > len(parameters):
            raise ArgumentError(f"an example has {len(example)} arguments; the operator takes {', '.join(parameters)}")
    else:
        values = {parameters[0]: example}
    if unknown := sorted(values.keys() - set(parameters)):
        raise ArgumentError(f"an example names {', '.join(unknown)}; the operator takes {', '.join(parameters)}")
    return values


def flattened(example: Any, signature: Signature | None) -> Any:
    """Return an example with the fields of dataclasses in their place: cases have the arguments of the schema."""
    if signature is None or not signature.structs:
        return example
    flatten = flattener(signature)
    if isinstance(example, Mapping):
        flat = flatten((), example)
        return example if flat is None else flat[1]
    flat = flatten(example, {}) if isinstance(example, tuple | list) else None
    return example if flat is None else flat[0]


def completed(case: Case, signature: Signature | None) -> Case:
    """Return a case with the schema's arguments in their order, those that an example leaves out by their defaults.

    What calls by position, or asks for an argument by name, finds each then.
    """
    if signature is None:
        return case
    given = case.arguments
    defaults = {parameter.name: parameter.default for parameter in signature.parameters if parameter.has_default}
    names = [parameter.name for parameter in signature.parameters if parameter.name in {*given, *defaults}]
    arguments = {name: given[name] if name in given else _as_recipe(defaults[name]) for name in names}
    return replace(case, arguments={**arguments, **given})


def _as_recipe(value: Any) -> Any:
    if isinstance(value, Tensor):
        return TensorRecipe(
            tuple(value.shape), str(value.dtype).removeprefix("torch."), values="given", given=value.detach()
        )
    if isinstance(value, list | tuple):
        return tuple(map(_as_recipe, value))
    return value


def numbers_of(cases: Iterable[Case]) -> dict[str, tuple[Any, ...]]:
    """Return the values that examples have for the arguments that are not tensors, by argument."""
    found: dict[str, tuple[Any, ...]] = {}
    for case in cases:
        tensors = {name.partition("[")[0] for name in case.tensors()}
        for name, value in case.arguments.items():
            if name not in tensors and value is not None:
                found[name] = (*found.get(name, ()), value)
    return found


def dtypes_of(cases: Iterable[Case]) -> tuple[Mapping[str, str], ...]:
    """Return the element types of examples, as if their floating ones were a template parameter."""
    found = {recipe.dtype for case in cases for recipe in case.tensors().values()}
    floating = [
        name for name in ("float64", "float32") if any(getattr(torch, dtype).is_floating_point for dtype in found)
    ]
    wanted = sorted(found & {"float16", "bfloat16"}, reverse=True)
    return tuple({"T": name} for name in [*floating, *wanted]) or ({},)
