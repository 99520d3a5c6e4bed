"""Declares operators: `@opsmith.op`, the backward of an operator, and the rules that replace derived ones."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, cast, overload

import torch

from opsmith._keywords import keywords_of
from opsmith.errors import DefinitionError
from opsmith.runtime import registry
from opsmith.runtime.derived import derived_body, is_empty
from opsmith.runtime.kernel_file import KernelFile, read_kernel
from opsmith.runtime.operator import Operator
from opsmith.runtime.options import DefinitionOptions, OpOptions
from opsmith.runtime.structs import with_dataclasses
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Definition, Device
from opsmith.spec.dtypes import from_torch
from opsmith.spec.gradient import default_gradient_names, mark_skippable, renamed, wire_backward
from opsmith.spec.signature import Signature
from opsmith.spec.sizes import plan_sizes

__all__ = ["declare_backward", "declare_gradient", "declare_rival", "declare_rule", "op"]

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
        return _declare(inner, options)

    return decorate if function is None else decorate(function)


def declare_backward(forward: Operator, function: _Function, options: DefinitionOptions) -> Operator:
    """Declare the backward of an operator; the public function is `Operator.backward`."""
    definition = forward.definition
    if options.outputs is None:
        options = replace(options, outputs=default_gradient_names(definition.signature))
    if options.batch is None and definition.batch is False:
        options = replace(options, batch=False)
    backward = _define(function, definition.namespace, options, forward=definition)
    wiring = wire_backward(definition.signature, backward.signature)
    backward = replace(backward, signature=mark_skippable(backward.signature, wiring))
    if is_empty(function):
        backward = replace(backward, body=derived_body(definition, backward, wiring), is_derived=True)
    operator = _publish(backward)
    forward.definition = replace(definition, backward=backward, wiring=wiring)
    forward.gradient = operator
    return operator


def declare_gradient(forward: Operator, operator: Operator, names: Mapping[str, str]) -> None:
    """Make an operator that exists the backward of another; the public function is `Operator.gradient_is`."""
    definition, gradient = forward.definition, operator.definition
    if gradient.module != definition.module:
        raise DefinitionError(
            f"{definition.name}.gradient_is({gradient.name}): it is declared in {gradient.module}. The operators of one "
            "module are loaded together, those of two are not; declare both in one"
        )
    wiring = wire_backward(definition.signature, renamed(gradient.signature, names))
    forward.definition = replace(definition, backward=gradient, wiring=wiring)
    forward.gradient = operator


def declare_rule(
    operator: Operator, kind: Literal["vmap", "sharding", "flops", "examples"], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Replace a derived rule by the user's; the public functions are `Operator.vmap`, `.sharding`, `.flops`, `.examples`.

    Raises DefinitionError for anything but a function, and for an operator that is loaded already.
    """
    definition = operator.definition
    if not callable(function):
        raise DefinitionError(f"{definition.name}.{kind} decorates a function, found {function!r}")
    if operator.is_loaded:
        raise DefinitionError(f"{definition.name} is loaded already; declare its {kind} rule before the first call")
    # torch hands the other rules what the schema has; this one is called as the definition is.
    rule = with_dataclasses(function, definition.signature) if kind == "flops" else function
    changed: dict[str, Any] = {kind: rule}
    operator.definition = replace(definition, rules=replace(definition.rules, **changed))
    return function


def declare_rival(operator: Operator, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a competitor that the operator is timed against; the public function is `Operator.versus`.

    Unlike other rules it changes nothing about the operator, so it may be declared at any time. Raises DefinitionError
    for anything but a function, and for a name that is taken.
    """
    definition = operator.definition
    known = definition.rules.versus or {}
    if not callable(function):
        raise DefinitionError(f"{definition.name}.versus({name!r}) decorates a function, found {function!r}")
    if name in known:
        raise DefinitionError(f"{definition.name}.versus({name!r}) is declared twice")
    rival = with_dataclasses(function, definition.signature)
    operator.definition = replace(definition, rules=replace(definition.rules, versus={**known, name: rival}))
    return function


def _declare(function: _Function, options: OpOptions) -> Operator:
    if is_empty(function):
        raise DefinitionError(
            f"{function.__name__}: the body is empty. It is the reference that the kernels are held to, and the fallback "
            "where there is none: write the operator in PyTorch"
        )
    return _publish(_define(function, options.namespace or _namespace_of(function), options))


def _publish(definition: Definition) -> Operator:
    """Return the operator of a definition, and register it; nothing else knows of it before."""
    operator = Operator(definition)
    registry.declare(operator)
    return operator


def _define(
    function: _Function, namespace: str, options: DefinitionOptions, *, forward: Definition | None = None
) -> Definition:
    choices = _choices(function.__name__, options)
    signature = read_signature(function, choices, class_defaults=forward is None)
    plan_sizes(signature)
    if options.batch is not None:
        from opsmith.spec.samples import check_batch

        check_batch(signature, options.batch, is_backward=forward is not None)
    if options.autocast != "promote":
        from opsmith.spec.casts import check_autocast

        check_autocast(signature, options.autocast)
    _check_torch_limits(signature)
    file = Path(inspect.getsourcefile(function) or function.__code__.co_filename)
    files: dict[Device, str | KernelFile | None] = {"cpu": options.cpu, "cuda": options.cuda}
    kernels = {device: read_kernel(signature, given, file) for device, given in files.items() if given is not None}
    return Definition(
        namespace,
        signature,
        kernels,
        with_dataclasses(function, signature),
        function.__module__,
        file.resolve() if file.exists() else Path.cwd() / file.name,
        function.__code__.co_firstlineno,
        inspect.getdoc(function) or "",
        batch=options.batch,
        autocast=options.autocast,
        forward=forward,
    )


def _choices(name: str, options: DefinitionOptions) -> Choices:
    outputs = (options.outputs,) if isinstance(options.outputs, str) else options.outputs
    return Choices(
        tuple(outputs) if outputs is not None else None,
        _names(options.saved),
        _names(options.mutates),
        _names(options.nondifferentiable),
        dict(options.passes_gradient or {}),
        _names(options.contiguous),
        dict(options.preserve_format or {}),
        _dtypes(name, options.dtypes),
    )


def _names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset([names] if isinstance(names, str) else names)


def _dtypes(name: str, dtypes: Any) -> dict[str, tuple[str, ...]]:
    if dtypes is None:
        return {}
    by_letter = dtypes if isinstance(dtypes, Mapping) else {"T": dtypes}
    chosen: dict[str, tuple[str, ...]] = {}
    for letter, values in by_letter.items():
        found = [from_torch(dtype) if isinstance(dtype, torch.dtype) else None for dtype in values]
        if not found or None in found:
            raise DefinitionError(f"{name}: dtypes= holds {list(values)!r}; give torch.float32, torch.bfloat16, ...")
        chosen[letter] = tuple(dtype.name for dtype in found if dtype is not None)
    return chosen


def _check_torch_limits(signature: Signature) -> None:
    for parameter in signature.tensors:
        if parameter.keyword_only:
            raise DefinitionError(
                f"{signature.name}: the tensor {parameter.name} is keyword-only, and PyTorch gives no gradients to such "
                "operators; move it before the `*`"
            )
    try:
        torch._C.parse_schema(signature.schema)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise DefinitionError(
            f"{signature.name}: PyTorch cannot read the schema {signature.schema}: {reason}"
        ) from None


def _namespace_of(function: Callable[..., Any]) -> str:
    package = function.__module__.partition(".")[0]
    if package == "__main__":
        main = getattr(sys.modules["__main__"], "__file__", None)
        package = Path(main).stem if main else "notebook"
    return re.sub(r"\W", "_", package)
