"""What PyTorch must know of an operator that writes to its arguments: no gradient, and that they changed."""

from __future__ import annotations

from typing import Any

import torch

from opsmith.errors import GradientError
from opsmith.runtime.differentiate import tensors_of
from opsmith.spec.definition import Definition

__all__ = ["count_writes", "overload_of", "refuse_gradients"]


def refuse_gradients(definition: Definition, lib: torch.library.Library) -> None:
    """Make an operator raise where a gradient is asked for, instead of leaving it out silently."""
    qualified = definition.qualified_name

    def refuse(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_of(value)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            written = definition.signature.mutated[0].name
            raise GradientError(
                f"{definition.name}() writes to {written} and has no gradient. Call it under torch.no_grad(), or detach "
                "its arguments"
            )
        with torch._C._AutoDispatchBelowAutograd():
            overload = overload_of(qualified)
            return overload.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)

    lib.impl(definition.name, refuse, "Autograd", with_keyset=True)


def count_writes(definition: Definition, lib: torch.library.Library) -> None:
    """Make an operator that writes to its arguments raise their versions, as PyTorch's own do.

    Autograd compares versions to notice that a tensor which it saved was written to since.
    """
    qualified = definition.qualified_name
    mutated = definition.signature.mutated
    places = [definition.signature.parameters.index(parameter) for parameter in mutated]

    def write(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        for place, parameter in zip(places, mutated, strict=True):
            written = args[place] if place < len(args) else kwargs.get(parameter.name)
            if written is not None:
                torch.autograd.graph.increment_version(written)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return overload_of(qualified).redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs)

    lib.impl(definition.name, write, "ADInplaceOrView", with_keyset=True)


def overload_of(qualified_name: str) -> Any:
    """Return an operator of `torch.ops` by its qualified name."""
    namespace, name = qualified_name.split("::")
    return getattr(getattr(torch.ops, namespace), name).default
