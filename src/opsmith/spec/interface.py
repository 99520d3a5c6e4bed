"""Digests everything that the binding depends on: what a finished library and a definition must agree on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from opsmith.spec.definition import Definition
from opsmith.spec.signature import Signature

__all__ = ["INTERFACE_VERSION", "interface_digest"]

# Raise it when generated bindings change in what they accept or return; libraries built before are then rebuilt.
INTERFACE_VERSION = 1


def interface_digest(definitions: Iterable[Definition]) -> str:
    """Return a digest that is equal for definitions which the same binding serves.

    It does not depend on opsmith's version, so that a wheel built with one loads with another.
    """
    texts = sorted(_describe(definition) for definition in definitions)
    return hashlib.sha256("\n".join([str(INTERFACE_VERSION), *texts]).encode()).hexdigest()


def _describe(definition: Definition) -> str:
    # A launch is part of what is generated, and no source that could have changed says it.
    kernels = ", ".join(
        f"{device} {kernel.style} {kernel.entry}{f' {kernel.launch}' if kernel.launch else ''}"
        for device, kernel in sorted(definition.kernels.items())
    )
    return f"{definition.namespace}::{_describe_signature(definition.signature)} [{kernels}]"


def _describe_signature(signature: Signature) -> str:
    tensors = [f"{p.name}: {p.tensor_type.text}{' contiguous' if p.contiguous else ''}" for p in signature.tensors]
    outputs = [f"{o.name}: {o.tensor.text} {o.format_of or ''}".rstrip() for o in signature.outputs]
    dtypes = [f"{letter}={','.join(names)}" for letter, names in sorted(signature.dtypes.items())]
    return f"{signature.schema} ({'; '.join(tensors)}) -> ({'; '.join(outputs)}) {' '.join(dtypes)}"
