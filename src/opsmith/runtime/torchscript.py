"""Lets TorchScript compile functions that call operators."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch

from opsmith.runtime.operator import Operator

__all__ = ["scriptable"]

F = TypeVar("F", bound=Callable[..., Any])


def scriptable(function: F) -> F:
    """Let `torch.jit.script` compile a function that calls operators, alone or where a scripted one calls it; a decorator.

    TorchScript compiles source text and knows operators by their names in `torch.ops` alone. So what it is given is the
    same code in which the operators' names stand for those in `torch.ops`; they are built and loaded then. These return
    their saved outputs, too. All else in the function must be what TorchScript knows, its annotations included.
    """

    def prepared() -> FunctionType:
        assert isinstance(function, FunctionType)
        names = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(operator := names.get(name), Operator):
                operator.load()
                namespace, plain = operator.definition.qualified_name.split("::")
                names[name] = getattr(getattr(torch.ops, namespace), plain)
        known = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        known.__kwdefaults__, known.__annotations__ = function.__kwdefaults__, function.__annotations__
        known.__module__, known.__qualname__ = function.__module__, function.__qualname__
        return known

    # torch.jit asks functions for it, as it asks modules.
    function.__prepare_scriptable__ = prepared  # type: ignore[attr-defined]
    return function
