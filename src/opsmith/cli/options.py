"""Makes a command's options from the dataclass of its verb, and the dataclass from a command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from opsmith._keywords import Option, options_in
from opsmith.cli.completion import complete_value
from opsmith.cli.selection import read_function, read_sizes

__all__ = ["flags_for_one", "is_given", "options_of", "read_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Options = TypeVar("_Options")

_TYPES: Mapping[str, Any] = {
    "number": float,
    "integer": int,
    "file": click.Path(path_type=Path, dir_okay=False),
}
_METAVARS = {"function": "MODULE:FUNCTION", "sizes": "B=64,N=4096"}
# What a text of the command line stands for; the second argument is the option, for errors.
_READERS: Mapping[str, Callable[[str, str], Any]] = {"function": read_function, "sizes": read_sizes}


def options_of(options: type, **changed: Mapping[str, Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that gives a click command an option for each field; `changed` describes some otherwise."""

    def decorate(command: _Command) -> _Command:
        for name, default, described in reversed(list(options_in(options))):
            if described.kind is not None:
                command = _click_option(name, default, replace(described, **changed.get(name, {})))(command)
        return command

    return decorate


def read_options(options: type[_Options], values: Mapping[str, Any]) -> _Options:
    """Return the dataclass of a command line's values; what was not given has the dataclass's default.

    Raises ArgumentError for what cannot be read, and for what the dataclass refuses.
    """
    given: dict[str, Any] = {}
    for name, default, described in options_in(options):
        value = values.get(name)
        if value is not None and value != ():
            given[name] = _read(name, default, described, value)
    return options(**given)


def flags_for_one(options: type, values: Mapping[str, Any]) -> list[str]:
    """Return the options, as the command line spells them, that were given and are for one operator alone."""
    return [
        _flag(name, default, described)
        for name, default, described in options_in(options)
        if described.for_one and values.get(name) is not None
    ]


def is_given(context: click.Context, name: str) -> bool:
    """Return whether the command line has an option, whatever its value."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _read(name: str, default: Any, described: Option, value: Any) -> Any:
    if described.kind == "switch":
        return default is not value  # the flag of what is on by default is `--no-...`
    read = _READERS.get(described.kind or "")
    if read is None:
        return value
    flag = _flag(name, default, described)
    return tuple(read(one, flag) for one in value) if described.is_repeated else read(value, flag)


def _click_option(name: str, default: Any, described: Option) -> Callable[[_Command], _Command]:
    flag = _flag(name, default, described)
    if described.kind == "switch":
        return click.option(flag, name, is_flag=True, help=_help(described))
    return click.option(
        flag,
        name,
        type=click.Choice(described.choices) if described.choices else _TYPES.get(described.kind or ""),
        multiple=described.is_repeated,
        metavar=described.metavar or _METAVARS.get(described.kind or ""),
        shell_complete=complete_value(described.flag or name),
        help=_help(described, default),
    )


def _flag(name: str, default: Any, described: Option) -> str:
    flag = (described.flag or name).replace("_", "-")
    return f"--no-{flag}" if default is True else f"--{flag}"


def _help(described: Option, default: Any = None) -> str:
    text = f"{described.help} May be repeated." if described.is_repeated else described.help
    shown = described.unset or (
        "" if default in (None, ()) else f"{default:g}" if isinstance(default, float) else default
    )
    return f"{text}  [default: {shown}]" if shown != "" else text
