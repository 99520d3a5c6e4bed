"""Runs the `opsmith` command: one thin module for each subcommand, imported only when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
import warnings
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from opsmith._keywords import nearest
from opsmith._printable import printable
from opsmith._version import __version__
from opsmith.cli.examples import with_examples
from opsmith.errors import OpsmithError

__all__ = ["main"]

# Subcommand -> (module, first line of its help); the module holds a click command called `command`.
_COMMANDS = {
    "new": ("opsmith.cli.new", "Make a project with an operator, ready to build, check and publish."),
    "build": ("opsmith.cli.build", "Build operators with JIT, setuptools or CMake."),
    "check": ("opsmith.cli.check", "Test operators against their references."),
    "bench": ("opsmith.cli.bench", "Time operators against their references, torch.compile and the machine's limit."),
    "judge": ("opsmith.cli.judge", "Judge kernels that others wrote, people or machines, whom it does not trust."),
    "tune": ("opsmith.cli.tune", "Choose among the configurations of a kernel's launch by measuring them."),
    "profile": ("opsmith.cli.profile", "Show where the time of one call goes."),
    "wheel": ("opsmith.cli.wheel", "Make a project's wheel as it should be published, and audit it."),
    "prove": ("opsmith.cli.prove", "Run a wheel with every torch that it claims to work with."),
    "audit": ("opsmith.cli.audit", "Show what a wheel or library needs, and refuse a false claim."),
    "hub": ("opsmith.cli.hub", "Write an operator's sources for Hugging Face's kernel-builder."),
    "stub": ("opsmith.cli.stub", "Print the prototypes of kernels, or write skeletons."),
    "run": ("opsmith.cli.run", "Run a command that uses opsmith for torch.utils.cpp_extension."),
    "doctor": ("opsmith.cli.doctor", "Check this machine, and show how to fix what is broken."),
    "explain-error": ("opsmith.cli.explain_error", "Explain the errors in a log, and how to fix them."),
    "cache": ("opsmith.cli.cache", "Show, clean and share the store of built libraries."),
    "editor": ("opsmith.cli.editor", "Write compile_commands.json and type stubs for editors."),
    "bridge": ("opsmith.cli.bridge", "Build the fast path for calls and gradients now."),
    "help": ("opsmith.cli.help", "Print a cheat sheet: definition, kernel, native, notebook, environment."),
    "completion": ("opsmith.cli.completion", "Print the script that completes commands in bash, zsh or fish."),
    "demo": ("opsmith.cli.demo", "Build, check, time and train an LLTM, and write a report."),
    "plan": ("opsmith.cli.plan", "Write a build of operators for CMake (what find_package(opsmith) calls)."),
    "plan-sources": ("opsmith.cli.plan_sources", "Write a build of existing sources for CMake (likewise)."),
    "cmake-dir": ("opsmith.cli.cmake_dir", "Print the folder for CMAKE_PREFIX_PATH."),
}

# Called by opsmithConfig.cmake, not by people.
_HIDDEN = frozenset({"plan", "plan-sources"})


class _Lazy(click.Group):
    """A group that imports a subcommand on first use, so that `opsmith --help` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return with_examples(command, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        known = _COMMANDS.items()
        found = [CompletionItem(name, help=text) for name, (_, text) in known if name.startswith(incomplete)]
        return [item for item in found if item.value not in _HIDDEN] or super().shell_complete(ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and (guess := nearest(args[0], _COMMANDS)):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{guess}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items() if name not in _HIDDEN])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="opsmith")
def _cli() -> None:
    """Write an operator in PyTorch, make it fast in C++ or CUDA, and ship it as one binary."""


with_examples(_cli, "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 well, 1 the thing asked about is wrong, 2 the command line is wrong."""
    atexit.register(_spare_last_collections)
    # Of PyTorch's, where NumPy is not installed. No command needs it.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)
    try:
        _cli.main(args=None if arguments is None else list(arguments), prog_name="opsmith", standalone_mode=True)
    except OpsmithError as error:
        click.echo(f"{click.style('error', fg='red', bold=True)}: {printable(str(error), lines=True)}", err=True)
        sys.exit(1)
    except OSError as error:
        advice = _advice(error)
        if error.filename is None and not advice:
            raise
        # A file of the user's, who has named it: too long a name, no permission, a folder where a file should be. Or
        # the machine's state: a full disk, too many open files.
        name = f"{printable(str(error.filename)):.200}: " if error.filename is not None else ""
        click.echo(f"{click.style('error', fg='red', bold=True)}: {name}{error.strerror}{advice}", err=True)
        sys.exit(1)


def _spare_last_collections() -> None:
    """Keep Python from looking through all objects several times as it ends: with torch's that takes 0.3 s."""
    # nanobind, which Triton is bound with, would take what is left for a leak, and say so; also where the rest of
    # Triton could not be imported.
    if "triton._C.libtriton" not in sys.modules:
        gc.freeze()


def _advice(error: OSError) -> str:
    """Return what the catalogue of failures says about what the system answered."""
    from opsmith.catalogue import explain

    return "".join(f"\n\n{explanation.text}" for explanation in explain(error.strerror or ""))
