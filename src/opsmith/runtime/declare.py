"""Declares operators: `@opsmith.op`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

from opsmith._keywords import keywords_of
from opsmith.errors import DefinitionError
from opsmith.runtime.define import define
from opsmith.runtime.operator import Operator, publish
from opsmith.runtime.options import OpOptions

__all__ = ["op"]

_Function = Callable[..., Any]
_P = ParamSpec("_P")
_DEFAULTS = OpOptions()


class _Op(Protocol[_P]):
    """The two ways to use `opsmith.op`: as a decorator, and with options as a function that returns one."""

    @overload
    def __call__(self, function: _Function, /) -> Operator: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Callable[[_Function], Operator]: ...


def _typed(function: Callable[Concatenate[_Function | None, _P], Any]) -> _Op[_P]:
    return cast("_Op[_P]", function)


@_typed
@keywords_of(OpOptions, DefinitionError)
def op(
    function: _Function | None = None, /, options: OpOptions = _DEFAULTS
) -> Operator | Callable[[_Function], Operator]:
    """Declare an operator, as a decorator of the function that defines its values in plain PyTorch.

    The annotations are the definition: tensors as jaxtyping's (`Float[Tensor, "B 3*S"]`), optional ones with `| None`,
    lists of them, and int, float, bool, str, lists of ints and floats. Many numbers may be one frozen dataclass: the schema
    has its fields, by their own names, and a kernel gets a struct of them. The body is the reference, the fallback on a
    device without a kernel, and the gradient where no backward is declared.

    Raises DefinitionError for a definition that cannot be an operator, with the reason and the alternative.
    """

    def decorate(inner: _Function) -> Operator:
        definition = define(inner, options)
        try:
            return publish(definition)
        except DefinitionError:
            # Where a module is reloaded for the sake of its kernel.
            from opsmith.runtime.edits import warn_of_edits

            warn_of_edits(definition.module)
            raise

    return decorate if function is None else decorate(function)
