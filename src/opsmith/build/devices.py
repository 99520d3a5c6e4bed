"""Chooses the devices to build for on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from opsmith.spec.definition import Definition, Device

__all__ = ["wanted_devices"]


def wanted_devices(definitions: Iterable[Definition]) -> tuple[Device, ...]:
    """Return the devices that have kernels and exist on this machine."""
    import torch  # `opsmith build --help` does without

    with_kernels = {device for definition in definitions for device in definition.kernels}
    found: list[Device] = ["cpu"] if "cpu" in with_kernels else []
    if "cuda" in with_kernels and torch.cuda.is_available():
        found.append("cuda")
    return tuple(found)
