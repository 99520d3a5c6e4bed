"""Turns a user's example calls into cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.runtime.structs import flattener
from opsmith.spec.signature import Signature
from opsmith.subject.case import Case, TensorRecipe

__all__ = ["as_case", "completed", "dtypes_of", "flattened", "labelled", "numbers_of"]


def labelled(examples: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return examples with their names, "" where they have none; raises ArgumentError for a name without a call."""
    if not isinstance(examples, Mapping):
        return [("", example) for example in examples]
    for label, example in examples.items():
        if not isinstance(example, tuple | list | Mapping):
            found = type(example).__name__
            raise ArgumentError(
                f"the example {label!r} is a {found}; give each call its arguments: "
                "{'small': {'x': torch.randn(3)}}, or give a list of calls"
            )
    return list(examples.items())


def as_case(example: Any, parameters: tuple[str, ...]) -> Case:
    """Return an example as a case; raises ArgumentError for what is not a call."""
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
    return Case({name: _as_recipe(value) for name, value in values.items()})


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
