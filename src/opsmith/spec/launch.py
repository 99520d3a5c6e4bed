"""Describes how a kernel is launched: the grid and the configurations, as the definition writes them.

    grid="cdiv(M, BLOCK_M), B"         up to three sizes of the grid, over the sizes of a call and the constants
    configs=[{"BLOCK_M": 64, "num_warps": 4, "when": "M <= 4096"}, {"BLOCK_M": 128, "num_warps": 8}]

The binding evaluates expressions and conditions in C++; the interpreter on the CPU evaluates them in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.conditions import Condition, parse_condition
from opsmith.spec.dims import Expression
from opsmith.spec.launch_numbers import MOST_AXES, parse_number, split_sizes

__all__ = ["Config", "Constant", "Launch", "parse_constants", "parse_launch"]

# What a kernel may have as a compile-time constant.
Constant = int | float | bool | str

# Options of Triton's compiler that a configuration may set; each is an int.
_OPTIONS = ("num_warps", "num_stages", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
_WHEN = "when"


@dataclass(frozen=True)
class Config:
    """One way to compile a kernel: its constants by name, options of Triton's compiler, and when it may be chosen."""

    constants: tuple[tuple[str, Constant], ...] = ()
    options: tuple[tuple[str, int], ...] = ()
    when: Condition | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The constants that expressions may use: the ints."""
        return {name: value for name, value in self.constants if type(value) is int}

    @property
    def identity(self) -> tuple[object, ...]:
        """What a kernel is compiled for. 1, True and 1.0 are equal in Python, and not to a compiler."""
        return tuple((name, repr(value)) for name, value in self.constants), self.options

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether the configuration may be taken for some sizes: its condition may have its constants too."""
        return self.when is None or self.when.holds({**values, **self.numbers})


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched. The first configuration whose condition holds is taken."""

    grid: tuple[str, ...]
    configs: tuple[Config, ...]

    @cached_property
    def axes(self) -> tuple[Expression, ...]:
        """The sizes of the grid, one to three; none where a host function computes it."""
        return tuple(parse_number(text, "grid") for text in self.grid)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is computed for a launch."""
        return self.axes

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of the constants, which every configuration has."""
        return tuple(name for name, _ in self.configs[0].constants)

    @cached_property
    def compiled(self) -> tuple[Config, ...]:
        """What is compiled: the configurations without their conditions, each once."""
        return tuple({config.identity: replace(config, when=None) for config in self.configs}.values())

    def place(self, config: Config) -> int:
        """Return where a configuration is among those that are compiled."""
        return [one.identity for one in self.compiled].index(config.identity)

    def choose(self, values: Mapping[str, int]) -> Config | None:
        """Return the configuration for a call's sizes, or None if none may be taken."""
        return next((config for config in self.configs if config.holds(values)), None)

    def size(self, config: Config, values: Mapping[str, int]) -> tuple[int, int, int]:
        """Return the grid of a call in a configuration."""
        sizes = [axis.evaluate({**values, **config.numbers}) for axis in self.axes]
        x, y, z = [*sizes, 1, 1][:MOST_AXES]
        return x, y, z


def parse_launch(
    where: str,
    grid: object,
    configs: Sequence[Mapping[str, Any]] | None,
    shared: Mapping[str, Any],
    *,
    options: tuple[str, ...] = _OPTIONS,
) -> Launch:
    """Return a launch as `opsmith.triton` takes it; `shared` is what every configuration has.

    `options` are the names that are the compiler's, and no constants.

    Raises DefinitionError, which names `where`, for what is not one.
    """
    parsed = _parse_configs(where, configs, shared, options)
    texts = split_sizes(where, "grid", grid)
    for text in texts:
        parse_number(text, f"{where}: grid")
    return Launch(texts, parsed)


def parse_constants(where: str, configs: Sequence[Mapping[str, Any]] | None, constants: Mapping[str, Any]) -> Launch:
    """Return a launch as `opsmith.cute` takes it: constants alone, because a function of the kernel's computes the rest.

    Raises DefinitionError, which names `where`, for what is not one.
    """
    return Launch((), _parse_configs(where, configs, constants, ()))


def _parse_configs(
    where: str, configs: Sequence[Mapping[str, Any]] | None, shared: Mapping[str, Any], options: tuple[str, ...]
) -> tuple[Config, ...]:
    if configs is not None and (isinstance(configs, (str, Mapping)) or not configs):
        raise DefinitionError(
            f'{where}: configs= is a list of configurations, such as [{{"BLOCK": 1024, "num_warps": 4}}]'
        )
    parsed = tuple(_parse_config(where, {**shared, **config}, options) for config in configs or [{}])
    names = {frozenset(name for name, _ in config.constants) for config in parsed}
    if len(names) > 1:
        first, other = sorted(names, key=sorted)[:2]
        raise DefinitionError(
            f"{where}: the configurations have different constants: {', '.join(sorted(first ^ other))} is not in all of them"
        )
    for index, config in enumerate(parsed[:-1]):
        if config.when is None and len(parsed) > 1:
            raise DefinitionError(
                f"{where}: the configuration {index} has no condition, so those after it are never taken. Give it one: "
                '{..., "when": "N <= 1024"}'
            )
    return parsed


def _parse_config(where: str, given: Mapping[str, Any], option_names: tuple[str, ...]) -> Config:
    constants = {name: value for name, value in given.items() if name not in (*option_names, _WHEN)}
    for name, value in constants.items():
        if not isinstance(value, (int, float, bool, str)):
            raise DefinitionError(
                f"{where}: the constant {name} is {value!r:.60}; a kernel's constants are ints, floats, bools and texts. "
                "Several values are several configurations: configs=[{...}, {...}]"
            )
        if name in ("num_ctas", "grid"):
            raise DefinitionError(f"{where}: {name} cannot be part of a configuration")
    options = {name: given[name] for name in option_names if given.get(name) is not None}
    for name, value in options.items():
        if type(value) is not int or value < 1:
            raise DefinitionError(f"{where}: {name} is {value!r:.60}, expected a positive int")
    when = given.get(_WHEN)
    condition = None if when is None else parse_condition(where, when)
    return Config(tuple(sorted(constants.items())), tuple(sorted(options.items())), condition)
