"""Runs a command that gets opsmith wherever it imports torch.utils.cpp_extension: `opsmith run`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import click

from opsmith import _env
from opsmith._streams import flush_streams, is_terminal
from opsmith.run.environment import redirected

__all__ = ["command"]


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-v", "--verbose", is_flag=True, help="Report on stderr which processes use opsmith's module.")
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED, required=True)
def command(verbose: bool, words: tuple[str, ...]) -> None:
    """Run COMMAND with opsmith.cpp_extension in place of torch.utils.cpp_extension.

    This applies to every Python process that the command starts, including pip's builds, and ends with the command:
    nothing is written anywhere. The command replaces this process, so signals and exit code are its own.
    """
    program = shutil.which(words[0])
    if program is None:
        raise click.UsageError(f"program {words[0]} not found")
    if is_terminal(sys.stderr) and _env.read("OPSMITH_QUIET") is None:
        click.echo(f"opsmith  torch.utils.cpp_extension is opsmith's in: {shlex.join(words)}", err=True)
    environment = redirected(os.environ, report="1" if verbose else None)
    flush_streams()
    try:
        os.execve(program, words, environment)
    except OSError as error:
        raise click.UsageError(f"{program} cannot be run: {error.strerror}") from None
