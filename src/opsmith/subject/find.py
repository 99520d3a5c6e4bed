"""Finds operators by name: `smooth`, `smooth::lowpass`, `torch.ops.torchvision.nms`."""

from __future__ import annotations

import sys
from typing import Any

import torch

from opsmith.build.discover import import_named, module_names
from opsmith.errors import ArgumentError, DefinitionError
from opsmith.runtime.operator import operators_of
from opsmith.subject.selection import forward_operators

__all__ = ["find_attribute", "find_operators"]


def find_operators(path: str) -> tuple[Any, ...]:
    """Return the operators of a module's name, a `.py` file or a folder, or the one that is named behind `::`.

    That one may also be any other callable of the module. `torch.ops.namespace.name` is an operator of PyTorch's. Raises
    ArgumentError where no operator has that name, and DefinitionError if there is no such module.
    """
    if path.startswith("torch.ops."):
        return (_find_torch_op(path),)
    where, _, name = path.partition("::")
    modules = module_names(where)
    operators = [operator for module in modules for operator in operators_of(module)]
    if not name:
        if not operators:
            raise ArgumentError(
                f"{where} declares no operator with @opsmith.op. Name operators of other tools as "
                f"{where}::name or torch.ops.namespace.name, with --reference"
            )
        return forward_operators(operators)
    named = [operator for operator in operators if operator.definition.name == name]
    if named:
        return (named[0],)
    for module in modules:
        if callable(found := getattr(sys.modules[module], name, None)):
            return (found,)
    there = ", ".join(operator.definition.name for operator in operators) or "no operator"
    raise ArgumentError(f"{where} has no {name!r}; it declares {there}")


def find_attribute(text: str, option: str) -> Any:
    """Return what `module:name` stands for; raises ArgumentError, which names the option, if there is none."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise ArgumentError(f"{option} {text}: write it as module:function")
    try:
        found: Any = import_named(module, module)
    except DefinitionError as error:
        raise ArgumentError(f"{option} {text}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ArgumentError(f"{option} {text}: {module} has no {name}")
        found = getattr(found, part)
    return found


def _find_torch_op(path: str) -> Any:
    parts = path.removeprefix("torch.ops.").split(".")
    if len(parts) not in (2, 3):
        raise ArgumentError(f"{path}: write it as torch.ops.namespace.name or torch.ops.namespace.name.overload")
    found: Any = torch.ops
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ArgumentError(
                f"PyTorch has no {path}: check its spelling, and name the module that defines it with --import"
            ) from None
    return found
