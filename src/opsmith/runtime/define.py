"""Makes definitions: reads a decorated function and its options, and adds a backward, a rule or a rival to a definition."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from opsmith.errors import DefinitionError
from opsmith.runtime.derived import derived_body, is_empty
from opsmith.runtime.kernel_file import KernelFile, read_kernel
from opsmith.runtime.options import DefinitionOptions, OpOptions
from opsmith.runtime.structs import with_dataclasses
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Definition, Device
from opsmith.spec.dtypes import from_torch
from opsmith.spec.gradient import renamed, wire_backward
from opsmith.spec.signature import Signature
from opsmith.spec.sizes import plan_sizes
from opsmith.spec.skippable import mark_unneeded_gradients, mark_unneeded_saved

__all__ = ["define", "define_backward", "with_gradient", "with_rival", "with_rule"]

_MOST_ARGUMENTS = 64  # the dispatcher's bitset of arguments has a bit for each


def define(function: Callable[..., Any], options: OpOptions) -> Definition:
    """Return the definition of a function; raises DefinitionError for what cannot be an operator."""
    _check_function(function, "op")
    if is_empty(function):
        raise DefinitionError(
            f"{function.__name__}: the body is empty. It is the reference for the kernels and the fallback without "
            "one: write the operator in PyTorch"
        )
    return _define(function, options.namespace or _namespace_of(function), options)


def define_backward(
    forward: Definition, function: Callable[..., Any], options: DefinitionOptions
) -> tuple[Definition, Definition]:
    """Return the forward's definition, which now has a backward, and the backward's."""
    _check_function(function, f"{forward.name}.backward")
    if options.batch is None and forward.batch is False:
        options = replace(options, batch=False)
    backward = _define(function, forward.namespace, options, forward=forward)
    wiring = wire_backward(forward.signature, backward.signature)
    backward = replace(backward, signature=mark_unneeded_gradients(backward.signature, wiring))
    if is_empty(function):
        backward = replace(backward, body=derived_body(forward, backward, wiring), is_derived=True)
    return replace(forward, backward=backward, wiring=wiring), backward


def with_gradient(forward: Definition, gradient: Definition, names: Mapping[str, str]) -> Definition:
    """Return the forward with an operator that exists already as its backward; `names` as for `Operator.gradient_is`."""
    if gradient.module != forward.module:
        raise DefinitionError(
            f"{forward.name}.gradient_is({gradient.name}): it is declared in {gradient.module}. Only operators of one "
            "module are loaded together; declare both in the same module"
        )
    wiring = wire_backward(forward.signature, renamed(gradient.signature, names))
    return replace(forward, backward=gradient, wiring=wiring)


def with_rule(
    definition: Definition, kind: Literal["vmap", "sharding", "flops", "examples"], function: Callable[..., Any]
) -> Definition:
    """Return a definition with the user's rule instead of the derived one; raises DefinitionError if it is not callable."""
    if not callable(function):
        raise DefinitionError(f"{definition.name}.{kind} decorates a function, found {function!r}")
    # torch passes the other rules what the schema has; this one is called as the definition is.
    rule = with_dataclasses(function, definition.signature) if kind == "flops" else function
    changed: dict[str, Any] = {kind: rule}
    return replace(definition, rules=replace(definition.rules, **changed))


def with_rival(definition: Definition, name: str, function: Callable[..., Any]) -> Definition:
    """Return a definition that is also timed against `function`.

    Raises DefinitionError if that is not callable or the name is taken.
    """
    known = definition.rules.versus or {}
    if not callable(function):
        raise DefinitionError(f"{definition.name}.versus({name!r}) decorates a function, found {function!r}")
    if name in known:
        raise DefinitionError(f"{definition.name}.versus({name!r}) is declared twice")
    rival = with_dataclasses(function, definition.signature)
    return replace(definition, rules=replace(definition.rules, versus={**known, name: rival}))


def _check_function(function: object, decorator: str) -> None:
    """Raise DefinitionError for anything but a function of a module, such as a file's name in place of a keyword."""
    if not inspect.isfunction(function):
        raise DefinitionError(
            f"{decorator}() decorates a function, found {function!r:.80}; cpu= and cuda= name the files of kernels"
        )
    if not function.__module__:
        raise DefinitionError(
            f"{function.__name__}: the code that defines it has no module. Give exec() globals with a '__name__'"
        )


def _define(
    function: Callable[..., Any], namespace: str, options: DefinitionOptions, *, forward: Definition | None = None
) -> Definition:
    choices = _choices(function.__name__, options)
    signature = read_signature(function, choices, forward=forward.signature if forward else None)
    if forward is None:
        signature = mark_unneeded_saved(signature)
    plan_sizes(signature)
    if options.batch is not None:
        from opsmith.spec.samples import check_batch

        check_batch(signature, options.batch, is_backward=forward is not None)
    if options.autocast != "promote":
        from opsmith.spec.casts import check_autocast

        check_autocast(signature, options.autocast)
    _check_torch_limits(namespace, signature)
    file = Path(inspect.getsourcefile(function) or function.__code__.co_filename)
    files: dict[Device, str | KernelFile | None] = {"cpu": options.cpu, "cuda": options.cuda}
    kernels = {
        device: read_kernel(signature, given, file, device) for device, given in files.items() if given is not None
    }
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
    def names(option: str) -> tuple[str, ...]:
        return _names(f"{name}: {option}=", getattr(options, option))

    def pairs(option: str) -> dict[str, str]:
        return _pairs(f"{name}: {option}=", getattr(options, option))

    return Choices(
        names("outputs") if options.outputs is not None else None,
        frozenset(names("saved")),
        frozenset(names("mutates")),
        frozenset(names("nondifferentiable")),
        pairs("passes_gradient"),
        frozenset(names("contiguous")),
        pairs("preserve_format"),
        _dtypes(name, options.dtypes),
    )


def _names(option: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise DefinitionError(f"{option} is {given!r:.60}; give a name, or a tuple of names")
    return names


def _pairs(option: str, given: Any) -> dict[str, str]:
    if given is not None and not isinstance(given, Mapping):
        raise DefinitionError(f'{option} is {given!r:.60}; give a dict of names, such as {{"out": "x"}}')
    return dict(given or {})


def _dtypes(name: str, dtypes: Any) -> dict[str, tuple[str, ...]]:
    if dtypes is None:
        return {}
    by_letter = dtypes if isinstance(dtypes, Mapping) else {"T": dtypes}
    chosen: dict[str, tuple[str, ...]] = {}
    for letter, values in by_letter.items():
        each = list(values) if isinstance(values, Iterable) else [values]
        found = [from_torch(dtype) if isinstance(dtype, torch.dtype) else None for dtype in each]
        if not found or None in found:
            raise DefinitionError(f"{name}: dtypes= holds {each!r}; give torch.float32, torch.bfloat16, ...")
        chosen[letter] = tuple(dtype.name for dtype in found if dtype is not None)
    return chosen


def _check_torch_limits(namespace: str, signature: Signature) -> None:
    for parameter in signature.tensors:
        if parameter.keyword_only:
            raise DefinitionError(
                f"{signature.name}: the tensor {parameter.name} is keyword-only, and PyTorch gives no gradients to "
                "such operators; move it before the `*`"
            )
    if len(signature.parameters) > _MOST_ARGUMENTS:
        raise DefinitionError(
            f"{signature.name}: it has {len(signature.parameters)} arguments, and PyTorch's operators can have "
            f"{_MOST_ARGUMENTS}; take tensors as a list, or numbers as list[int] or list[float]"
        )
    try:
        torch._C.parse_schema(f"{namespace}::{signature.schema}")
    except (RuntimeError, UnicodeDecodeError) as error:  # its names are ASCII
        reason = str(error).partition("\n")[0]
        raise DefinitionError(
            f"{signature.name}: PyTorch cannot read the schema {signature.schema} in {namespace}: {reason}"
        ) from None


def _namespace_of(function: Callable[..., Any]) -> str:
    package = function.__module__.partition(".")[0]
    if package == "__main__":
        main = getattr(sys.modules["__main__"], "__file__", None)
        package = Path(main).stem if main else "notebook"
    if not package.isascii():  # punycode is, and differs where names do
        package = package.encode("punycode").decode("ascii")
    return re.sub(r"\W", "_", package)
