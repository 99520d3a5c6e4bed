"""How an operator is declared: `@opsmith.op`, and the backward and the rules that are declared with it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from opsmith.errors import DefinitionError
from opsmith.runtime import registry
from opsmith.runtime.derived import derived_body, is_empty
from opsmith.runtime.kernel_file import KernelFile, read_kernel
from opsmith.runtime.operator import Operator
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Batch, Definition, Device
from opsmith.spec.dtypes import from_torch
from opsmith.spec.gradient import default_gradient_names, mark_skippable, renamed, wire_backward
from opsmith.spec.signature import Signature
from opsmith.spec.sizes import plan_sizes

if TYPE_CHECKING:
    from opsmith.spec.casts import Autocast

__all__ = ["declare_backward", "declare_gradient", "declare_rival", "declare_rule", "op"]


_File = str | KernelFile | None
_Names = str | Iterable[str]


@overload
def op(function: Callable[..., Any], /) -> Operator: ...
@overload
def op(
    *,
    cpu: _File = None,
    cuda: _File = None,
    namespace: str | None = None,
    outputs: Sequence[str] | None = None,
    saved: _Names = (),
    mutates: _Names = (),
    nondifferentiable: _Names = (),
    passes_gradient: Mapping[str, str] | None = None,
    contiguous: _Names = (),
    preserve_format: Mapping[str, str] | None = None,
    dtypes: Sequence[torch.dtype] | Mapping[str, Sequence[torch.dtype]] | None = None,
    batch: Batch = None,
    autocast: Autocast | None = "promote",
) -> Callable[[Callable[..., Any]], Operator]: ...


def op(function: Callable[..., Any] | None = None, /, **said: Any) -> Any:
    """Declare an operator, as a decorator of the function that defines its values in plain PyTorch.

    The annotations are the definition: tensors as jaxtyping's (`Float[Tensor, "B 3*S"]`), optional ones with `| None`,
    lists of them, and int, float, bool, str, lists of ints and floats. The body is the reference, the fallback on a
    device without a kernel, and the gradient where no backward is declared.

    Parameters
    ----------
    cpu, cuda
        The kernel's file, relative to this one, or `opsmith.view(...)` / `opsmith.native(...)`. A `.cu` also serves ROCm.
    namespace
        Where the operator stands in `torch.ops`; the package's name by default.
    outputs
        The outputs' names, which `.backward` refers to; `out` for one, `out0`, `out1`, ... for several by default.
    saved
        Outputs that exist for the backward alone: the caller never gets them.
    mutates
        Arguments that the kernel writes to. Such an operator has no gradient.
    nondifferentiable
        Arguments and outputs without a gradient, beyond those of integer type.
    passes_gradient
        `{"input": "output"}`: the gradient of an input is that of an output, unchanged, as for a summand. Nothing is
        computed or copied for it, and a backward does not return it.
    contiguous
        Inputs that the kernel shall get contiguous; others come with whatever strides they have.
    preserve_format
        `{"output": "input"}`: an output takes the memory format of an input (channels_last stays so).
    dtypes
        The element types of `Float` tensors, or a mapping from template parameter (T, I) to them.
    batch
        The name of a dimension along which samples are independent, or a tuple of such names: torch.vmap and DTensor then
        use the kernel for many samples at once. A variadic group of every output ("*n", "*batch") is taken for such
        dimensions without being named; give False where that is wrong, because the operator looks at several elements of
        the group together.
    autocast
        What happens to floating tensors of at most 32 bits under torch.autocast: "promote" casts those of one template
        parameter that differ to the widest among them, "low" casts them to autocast's type (for matrix products),
        "float32" casts them up, None leaves them. Pinned ones are cast to what they are pinned to.

    Raises
    ------
    DefinitionError
        For whatever an operator cannot be, with the reason and the alternative.
    """
    if function is not None:
        return _declare(function)

    def decorate(inner: Callable[..., Any]) -> Operator:
        return _declare(inner, **said)

    return decorate


def declare_backward(forward: Operator, function: Callable[..., Any], **said: Any) -> Operator:
    """Declare the backward of an operator; `Operator.backward` is the public way to it."""
    definition = forward.definition
    if said.get("outputs") is None:
        said["outputs"] = default_gradient_names(definition.signature)
    if said.get("batch") is None and definition.batch is False:
        said["batch"] = False
    backward = _define(function, namespace=definition.namespace, forward=definition, **said)
    wiring = wire_backward(definition.signature, backward.signature)
    backward = replace(backward, signature=mark_skippable(backward.signature, wiring))
    if is_empty(function):
        backward = replace(backward, body=derived_body(definition, backward, wiring), is_derived=True)
    operator = _publish(backward)
    forward.definition = replace(definition, backward=backward, wiring=wiring)
    forward.gradient = operator
    return operator


def declare_gradient(forward: Operator, operator: Operator, names: Mapping[str, str]) -> None:
    """Take an operator that exists for the backward of another; `Operator.gradient_is` is the public way to it."""
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
    """Put a rule that the user wrote in place of the derived one; `Operator.vmap` and its like are the public way to it.

    Raises DefinitionError for what is no function, and for an operator that is loaded already.
    """
    definition = operator.definition
    if not callable(function):
        raise DefinitionError(f"{definition.name}.{kind} decorates a function, found {function!r}")
    if operator.is_loaded:
        raise DefinitionError(f"{definition.name} is loaded already; declare its {kind} rule before the first call")
    said: dict[str, Any] = {kind: function}
    operator.definition = replace(definition, rules=replace(definition.rules, **said))
    return function


def declare_rival(operator: Operator, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Note what an operator is timed against; `Operator.versus` is the public way to it.

    Unlike other rules it changes nothing about the operator, so it may be declared at any time. Raises DefinitionError
    for what is no function, and for a name that is taken.
    """
    definition = operator.definition
    known = definition.rules.versus or {}
    if not callable(function):
        raise DefinitionError(f"{definition.name}.versus({name!r}) decorates a function, found {function!r}")
    if name in known:
        raise DefinitionError(f"{definition.name}.versus({name!r}) is declared twice")
    operator.definition = replace(definition, rules=replace(definition.rules, versus={**known, name: function}))
    return function


def _declare(function: Callable[..., Any], **said: Any) -> Operator:
    if is_empty(function):
        raise DefinitionError(
            f"{function.__name__}: the body is empty. It is the reference that the kernels are held to, and the fallback "
            "where there is none: write the operator in PyTorch"
        )
    return _publish(_define(function, **said))


def _publish(definition: Definition) -> Operator:
    """Make the operator of a definition; only now does anybody else learn of it."""
    operator = Operator(definition)
    registry.declare(operator)
    return operator


def _define(
    function: Callable[..., Any],
    *,
    cpu: _File = None,
    cuda: _File = None,
    namespace: str | None = None,
    batch: Batch = None,
    autocast: Autocast | None = "promote",
    forward: Definition | None = None,
    **said: Any,
) -> Definition:
    signature = read_signature(function, _choices(function.__name__, **said))
    plan_sizes(signature)
    if batch is not None:
        from opsmith.spec.samples import check_batch

        check_batch(signature, batch, is_backward=forward is not None)
    if autocast != "promote":
        from opsmith.spec.casts import check_autocast

        check_autocast(signature, autocast)
    _check_torch_limits(signature)
    file = Path(inspect.getsourcefile(function) or function.__code__.co_filename)
    files: dict[Device, _File] = {"cpu": cpu, "cuda": cuda}
    kernels = {device: read_kernel(signature, given, file) for device, given in files.items() if given is not None}
    return Definition(
        namespace or _namespace_of(function),
        signature,
        kernels,
        function,
        function.__module__,
        file.resolve() if file.exists() else Path.cwd() / file.name,
        function.__code__.co_firstlineno,
        inspect.getdoc(function) or "",
        batch=batch,
        autocast=autocast,
        forward=forward,
    )


def _choices(
    name: str,
    *,
    outputs: Sequence[str] | None = None,
    saved: _Names = (),
    mutates: _Names = (),
    nondifferentiable: _Names = (),
    passes_gradient: Mapping[str, str] | None = None,
    contiguous: _Names = (),
    preserve_format: Mapping[str, str] | None = None,
    dtypes: Any = None,
) -> Choices:
    if isinstance(outputs, str):
        outputs = (outputs,)
    return Choices(
        tuple(outputs) if outputs is not None else None,
        _names(saved),
        _names(mutates),
        _names(nondifferentiable),
        dict(passes_gradient or {}),
        _names(contiguous),
        dict(preserve_format or {}),
        _dtypes(name, dtypes),
    )


def _names(names: _Names) -> frozenset[str]:
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
