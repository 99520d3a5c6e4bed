"""Prints the script by which a shell completes commands, options and their values: `opsmith completion`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

__all__ = ["PROPERTIES", "VALUES", "command", "complete_path", "complete_value"]

# As opsmith.checker.properties.table has them, which would import torch at each press of a key.
PROPERTIES = (
    *("value", "magnitude", "special values", "sizes", "empty", "strides", "arguments", "gradient", "second gradient"),
    *("outputs written", "writes outside", "reads outside", "inputs unchanged", "aliasing", "determinism", "threads"),
    *("state", "memory growth", "fake", "opcheck", "compile", "export", "vmap", "func.grad", "jvp", "bad arguments"),
    *("large", "streams", "devices", "graph"),
)
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
# By the option's name, for those whose values are known but not the only ones that the option takes.
VALUES: Mapping[str, tuple[str, ...]] = {
    "against": ("eager", "compiled", "reduce-overhead", "max-autotune", "graph", "eager graph"),
    "device": ("cpu", "cuda"),
    "dtype": _DTYPES,
    "phase": ("forward", "backward", "both"),
    "property": PROPERTIES,
}


_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_OPSMITH_COMPLETE"  # in which a shell says, by click's script, that it asks


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete what names operators, a module, a file or a folder, as a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_value(flag: str) -> Any:
    """Return what completes the values of an option, or None where nothing is known of them."""
    known = VALUES.get(flag)
    if known is None:
        return None

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        # zsh and fish quote what they insert. bash does not, and click's script for it takes one backslash away.
        blank = r"\\ " if os.environ.get(_VARIABLE, "").startswith("bash") else " "
        return [value.replace(" ", blank) for value in known if value.startswith(incomplete)]

    return complete


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, properties and files of opsmith in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "opsmith", _VARIABLE).source())
