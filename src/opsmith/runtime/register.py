"""Registers what an operator's library does not bring: fake kernel, fallback on the body, gradient and rules."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from opsmith import _env
from opsmith._standalone import PROJECT
from opsmith.errors import ToolchainError
from opsmith.runtime.autocast import register_autocast
from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.edits import warn_of_edits
from opsmith.runtime.flops import register_flops
from opsmith.runtime.gradients import register_gradient
from opsmith.runtime.sharding import add_sharding_rule
from opsmith.runtime.vmap import register_vmap
from opsmith.spec.definition import Definition, Device
from opsmith.spec.sizes import SizeProgram, plan_sizes

__all__ = ["explain_call", "register_kernels", "register_rules"]

# One library handle for each namespace, kept for the life of the process: what it registered goes with it.
_libraries: dict[str, torch.library.Library] = {}

_KEYS: dict[Device, str] = {"cpu": "CPU", "cuda": "CUDA"}


def register_kernels(definition: Definition, *, is_defined: bool, missing: Mapping[Device, str]) -> None:
    """Register the kernels of an operator that its library does not bring: the fake one, and its body as fallback.

    `is_defined` tells whether the library brought the schema. `missing` says for each device that has a kernel which was
    not built why that is so: a call there raises ToolchainError instead of running the body silently.
    """
    lib = _library(definition)
    if not is_defined:
        lib.define(definition.signature.schema)
    sizes = plan_sizes(definition.signature)
    _know_modules()
    torch.library.register_fake(definition.qualified_name, _fake_kernel(definition, sizes), lib=lib)
    lib.impl(definition.name, _fallback_kernel(definition, sizes), "CompositeExplicitAutograd")
    if not PROJECT and _env.read("TRITON_INTERPRET") is not None:
        from opsmith.runtime.interpret import is_interpreted  # few processes interpret kernels

        if is_interpreted(definition):
            lib.impl(definition.name, _interpreter(definition, sizes), "CPU", allow_override=True)
    for device, reason in missing.items():
        if device in definition.kernels:
            lib.impl(definition.name, _missing_kernel(definition, device, reason), _KEYS[device])


def register_rules(definition: Definition) -> None:
    """Register how an operator composes with PyTorch's transformations; its backward's operator is defined by then."""
    lib = _library(definition)
    register_gradient(definition, lib)
    register_vmap(definition, lib)
    register_autocast(definition, lib)
    register_flops(definition)
    add_sharding_rule(definition)


def explain_call(definition: Definition, sizes: SizeProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise the typed exception for a call whose arguments do not fit; return where they do."""
    from opsmith.runtime.arguments import check_call
    from opsmith.runtime.outputs import output_forms

    warn_of_edits(definition.module)
    signature = definition.signature
    bound = check_call(signature, sizes, bind_arguments(signature, args, kwargs))
    output_forms(signature, bound, lambda name: 0)


def _library(definition: Definition) -> torch.library.Library:
    lib = _libraries.get(definition.namespace)
    if lib is None:
        lib = _libraries[definition.namespace] = torch.library.Library(definition.namespace, "FRAGMENT")
    return lib


def _know_modules() -> None:
    """Tell inspect which module two files belong to, before PyTorch asks it.

    `register_fake` looks up the module of its caller. Unless inspect knows the file already it looks at every module that
    is loaded, thousands beside torch, and that took a third of the time of loading an operator.
    """
    for module in (sys.modules[__name__], torch.library):
        inspect.modulesbyfile.setdefault(inspect.getabsfile(module), module.__name__)


def _fake_kernel(definition: Definition, sizes: SizeProgram) -> Callable[..., Any]:
    signature = definition.signature

    # What checks arguments and makes outputs is imported where it is first needed: most processes never trace an operator.
    def fake(*args: Any, **kwargs: Any) -> Any:
        from opsmith.runtime.arguments import check_call
        from opsmith.runtime.outputs import output_forms

        bound = check_call(signature, sizes, bind_arguments(signature, args, kwargs))
        unknown = (lambda name: torch.library.get_ctx().new_dynamic_size()) if signature.data_dependent else None
        return _packed(tuple(form.allocate() for form in output_forms(signature, bound, unknown)))

    return fake


def _fallback_kernel(definition: Definition, sizes: SizeProgram) -> Callable[..., Any]:
    signature = definition.signature

    def fallback(*args: Any, **kwargs: Any) -> Any:
        from opsmith.runtime.arguments import check_call
        from opsmith.runtime.outputs import conform

        bound = check_call(signature, sizes, bind_arguments(signature, args, kwargs))
        return _packed(conform(definition, definition.body(**bound.arguments), bound))

    return fallback


def _interpreter(definition: Definition, sizes: SizeProgram) -> Callable[..., Any]:
    from opsmith.runtime.interpret import interpreted_kernel

    run = interpreted_kernel(definition, sizes)
    return lambda *args, **kwargs: _packed(run(*args, **kwargs))


def _missing_kernel(definition: Definition, device: Device, reason: str) -> Callable[..., Any]:
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise ToolchainError(f"{definition.name}() has a kernel for {device}, but it could not be built: {reason}")

    return missing


def _packed(outputs: tuple[torch.Tensor, ...]) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs or None
