"""Looks operators up in torch.ops and in PyTorch's dispatcher."""

from __future__ import annotations

from typing import Any

import torch

from opsmith.spec.definition import Definition

__all__ = ["is_defined", "overload_of"]


def overload_of(qualified_name: str) -> Any:
    """Return an operator of `torch.ops` by its qualified name."""
    namespace, name = qualified_name.split("::")
    return getattr(getattr(torch.ops, namespace), name).default


def is_defined(definition: Definition) -> bool:
    """Tell whether PyTorch has an operator of a definition's name."""
    return bool(torch._C._dispatch_has_kernel(definition.qualified_name)) or any(
        schema.name == definition.qualified_name
        for schema in torch._C._jit_get_schemas_for_operator(definition.qualified_name)
    )
