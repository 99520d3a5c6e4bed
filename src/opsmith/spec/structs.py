"""Reads a parameter that is a frozen dataclass: its fields become arguments of the schema.

Each field keeps its own name there, without its parameter's in front: shapes and backwards refer to it as they would to
a scalar parameter, and scalars that are gathered in a dataclass later leave the schema, and so saved programs, as they
were.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.kinds import as_declared, check_default, choices_in, is_jaxtyping, name_of, read_kind
from opsmith.spec.signature import Kind, Parameter, Struct

__all__ = ["check_field_names", "find_dataclass", "keep_trailing_defaults", "read_fields"]

_FIELD_CAN_BE = "a field can be int, float, bool, str, int | None, float | None or bool | None"
_LISTS = (Kind.INT_LIST, Kind.FLOAT_LIST)


def find_dataclass(where: str, annotation: Any) -> type | None:
    """Return the dataclass that a parameter is annotated with, or None if it is something else.

    Raises DefinitionError for one that is optional, in a list, or not frozen.
    """
    if _is_dataclass(annotation):
        if not annotation.__dataclass_params__.frozen:
            raise DefinitionError(
                f"{where} is the dataclass {annotation.__name__}, which is not frozen, so a call could change it; declare "
                "it @dataclass(frozen=True)"
            )
        return typing.cast(type, annotation)
    if inner := next(filter(_is_dataclass, typing.get_args(annotation)), None):
        raise DefinitionError(
            f"{where} is an optional or repeated dataclass, but its fields are a fixed number of arguments. "
            f"Annotate it {inner.__name__}; the fields can be optional and can have defaults"
        )
    return None


def read_fields(
    operator: str, parameter: inspect.Parameter, dataclass_: type, *, with_defaults: bool
) -> tuple[Parameter, ...]:
    """Return the arguments that a parameter annotated with a dataclass stands for; raises DefinitionError.

    Defaults are those of the parameter's own default, an instance; else, `with_defaults`, those of the class.
    """
    where = f"{operator}: the argument {parameter.name}"
    hints = _hints_of(where, dataclass_)
    default = None if parameter.default is parameter.empty else parameter.default
    if parameter.default is not parameter.empty and not isinstance(default, dataclass_):
        raise DefinitionError(
            f"{where} is {dataclass_.__name__} and cannot have the default {default!r}; give it an instance, or the fields "
            "defaults"
        )
    fields = dataclasses.fields(dataclass_)
    struct = Struct(
        parameter.name,
        dataclass_,
        tuple(field.name for field in fields),
        keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
    )
    if not fields:
        raise DefinitionError(f"{where}: {dataclass_.__name__} has no fields to pass")
    return tuple(
        _read_field(
            f"{operator}: the field {dataclass_.__name__}.{field.name}",
            field,
            hints[field.name],
            struct,
            default,
            with_defaults,
        )
        for field in fields
    )


def _hints_of(where: str, dataclass_: type) -> dict[str, Any]:
    """Return the annotations of a dataclass, evaluated; raises DefinitionError."""
    try:
        written = [pair for one in dataclass_.__mro__ for pair in inspect.get_annotations(one, eval_str=True).items()]
        init_vars = [name for name, hint in written if isinstance(hint, dataclasses.InitVar)]
        hints = {} if init_vars else typing.get_type_hints(dataclass_)  # which Python 3.10 refuses for an InitVar
    except Exception as error:  # annotations are the user's code, and under PEP 563 they run here
        raise DefinitionError(
            f"{where}: an annotation of {dataclass_.__name__} cannot be evaluated: {error}"
        ) from error
    if init_vars:
        raise DefinitionError(
            f"{where}: {dataclass_.__name__}.{init_vars[0]} is an InitVar, which an instance does not keep; make it a field"
        )
    return hints


def keep_trailing_defaults(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return the arguments without defaults of fields that one without a default follows: no schema allows those.

    A call with the dataclass still has them.
    """
    kept: list[Parameter] = []
    is_trailing = True
    for parameter in reversed(parameters):
        drops = parameter.struct is not None and not parameter.keyword_only and not is_trailing
        kept.append(replace(parameter, has_default=False, default=None) if drops else parameter)
        is_trailing = is_trailing and (parameter.keyword_only or kept[-1].has_default)
    return tuple(reversed(kept))


def check_field_names(operator: str, parameters: Sequence[Parameter], names: Sequence[str]) -> None:
    """Refuse a field that has the name of another argument; `names` are those of the definition's parameters."""
    taken = list(names) + [parameter.name for parameter in parameters if parameter.struct is not None]
    for parameter in parameters:
        if parameter.struct is not None and taken.count(parameter.name) > 1:
            raise DefinitionError(
                f"{operator}: the field {parameter.struct.type.__name__}.{parameter.name} has the name of another "
                "argument, and the schema uses the fields' own names; rename one"
            )


def _read_field(
    where: str, field: dataclasses.Field[Any], hint: Any, struct: Struct, instance: Any, with_defaults: bool
) -> Parameter:
    kind = _read_field_kind(where, hint)
    if not field.init:
        raise DefinitionError(
            f"{where} is not an argument of the class (init=False); make it a property, or an argument"
        )
    if field.default_factory is not dataclasses.MISSING:
        raise DefinitionError(f"{where} has a default_factory; give it a default, which a schema can hold")
    has_default, default = False, None
    if instance is not None:
        has_default, default = True, getattr(instance, field.name)
    elif with_defaults and field.default is not dataclasses.MISSING:
        has_default, default = True, field.default
    if has_default:
        check_default(where, hint, kind, default)
    return Parameter(
        field.name,
        kind,
        None,
        has_default,
        as_declared(kind, default) if has_default else None,
        keyword_only=struct.keyword_only,
        struct=struct,
        choices=choices_in(hint),
    )


def _read_field_kind(where: str, hint: Any) -> Kind:
    import torch

    remedy = ""
    if is_jaxtyping(hint) or hint is torch.Tensor:
        remedy = "make it a separate parameter"
    elif _is_dataclass(hint):
        remedy = f"give the outer dataclass the fields of {hint.__name__}, or make it a separate parameter"
    else:
        try:
            kind, tensor = read_kind(where, hint)
        except DefinitionError:
            pass
        else:
            if tensor is None and kind not in _LISTS:
                return kind
            remedy = "make it a separate parameter"
    raise DefinitionError(f"{where} is annotated {name_of(hint)}; {_FIELD_CAN_BE}{remedy and f'. Else {remedy}'}")


def _is_dataclass(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
