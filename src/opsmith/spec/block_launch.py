"""Describes the launch of a kernel in CUDA C++, which says how many threads a block has; Triton decides that itself.

block="BLOCK // 4, 4"      threads along up to three axes
shared="4 * BLOCK"         bytes of dynamic shared memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Expression
from opsmith.spec.launch import Launch, parse_launch
from opsmith.spec.launch_numbers import parse_number, split_sizes

__all__ = ["BlockLaunch", "parse_block_launch"]


@dataclass(frozen=True)
class BlockLaunch(Launch):
    """How a kernel is launched that does not bring the size of its blocks along, and may want shared memory in bytes."""

    block: tuple[str, ...] = ("1",)
    shared: str = "0"

    @cached_property
    def threads(self) -> tuple[Expression, ...]:
        """The threads of a block, along one to three axes."""
        return tuple(parse_number(text, "block") for text in self.block)

    @cached_property
    def shared_bytes(self) -> Expression:
        """The bytes of dynamic shared memory of a block."""
        return parse_number(self.shared, "shared")

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is computed for a launch."""
        return (*self.axes, *self.threads, self.shared_bytes)


def parse_block_launch(
    where: str,
    grid: object,
    block: object,
    shared: object,
    configs: Sequence[Mapping[str, Any]] | None,
    constants: Mapping[str, Any],
) -> BlockLaunch:
    """Return a launch as `opsmith.kernel` takes it; `constants` is what every configuration has.

    Raises DefinitionError, which names `where`, for what is not one.
    """
    launch = parse_launch(where, grid, configs, constants, options=())
    for name in sorted({"block", "shared"} & {*launch.constants}):
        raise DefinitionError(
            f'{where}: {name} cannot be part of a configuration; compute it of a constant that is: {name}="BLOCK"'
        )
    for name, value in (pair for config in launch.configs for pair in config.constants):
        if not isinstance(value, int):
            raise DefinitionError(
                f"{where}: the constant {name} is {value!r:.60}; a constant of a CUDA kernel is a template parameter, an "
                "int or a bool. Others are macros: flags=[...]"
            )
    threads = split_sizes(where, "block", block)
    (size,) = split_sizes(where, "shared", shared, most=1)
    for name, text in (*(("block", text) for text in threads), ("shared", size)):
        parse_number(text, f"{where}: {name}")
    return BlockLaunch(launch.grid, launch.configs, threads, size)
