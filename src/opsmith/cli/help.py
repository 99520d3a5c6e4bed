"""Prints what one needs beside an editor: `opsmith help kernel` and the other topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import click

from opsmith._keywords import nearest

__all__ = ["TOPICS", "Topic", "command", "topic_text"]

_FOLDER = Path(__file__).parent / "topics"
_WIDTH = 100


class Topic(NamedTuple):
    """A topic: what it is about, and the function that writes it where it is not a file of the folder `topics`."""

    about: str
    write: Callable[[], str] | None = None


def _environment() -> str:
    """Return the table of environment variables."""
    from opsmith._env import VARIABLES

    formatter = click.HelpFormatter(width=_WIDTH, max_width=_WIDTH)
    formatter.write_text("ENVIRONMENT: the variables that opsmith reads. `opsmith doctor` checks their values.")
    formatter.write_paragraph()
    formatter.write_dl([(variable.name, variable.help) for variable in VARIABLES], col_max=26)
    return formatter.getvalue()


TOPICS: Mapping[str, Topic] = {
    "definition": Topic("what @opsmith.op takes: annotations, sizes, options"),
    "kernel": Topic("the C++ and CUDA that a kernel is written in"),
    "native": Topic("kernels over torch::stable::Tensor, which may call PyTorch's operators"),
    "notebook": Topic("%%opsmith cells in Jupyter and IPython"),
    "environment": Topic("the variables that opsmith reads", _environment),
}


def topic_text(name: str) -> str:
    """Return the text of a topic."""
    write = TOPICS[name].write
    return write() if write is not None else (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in TOPICS if name.startswith(incomplete)]


@click.command("help")
@click.argument("topic", required=False, shell_complete=_complete)
@click.pass_context
def command(context: click.Context, topic: str | None) -> None:
    """Print the cheat sheet of TOPIC, or the help of a command; without TOPIC, list the topics."""
    if topic is None:
        formatter = context.make_formatter()
        with formatter.section("Topics"):
            formatter.write_dl([(name, entry.about) for name, entry in TOPICS.items()])
        click.echo(
            f"{formatter.getvalue()}\n`opsmith help TOPIC` prints one, `opsmith COMMAND --help` a command's help."
        )
    elif topic in TOPICS:
        click.echo(topic_text(topic), nl=False)
    else:
        _print_help_of(context, topic)


def _print_help_of(context: click.Context, name: str) -> None:
    """Print a command's help; raises UsageError for what is neither a topic nor a command."""
    parent = context.parent
    group = parent.command if parent is not None else None
    found = group.get_command(context, name) if isinstance(group, click.Group) else None
    if found is None:
        known = [*TOPICS, *(group.list_commands(context) if isinstance(group, click.Group) else ())]
        guess = nearest(name, known)
        raise click.UsageError(
            f"no topic or command {name!r}. "
            + (f"Did you mean {guess!r}?" if guess else f"Topics: {', '.join(TOPICS)}")
        )
    click.echo(found.get_help(click.Context(found, info_name=name, parent=parent)))
