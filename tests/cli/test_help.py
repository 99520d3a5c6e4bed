"""Help texts come at once: printing them imports neither torch nor what builds."""

from __future__ import annotations

import json
import subprocess
import sys

from opsmith.build.builders import BUILDERS
from opsmith.cli import _COMMANDS
from opsmith.cli.build import _BUILDERS

# What takes a tenth of a second and more to import, or leads to what does.
_OURS = ("bridge", "build", "catalogue", "codegen", "ops", "report", "runtime", "spec", "subject", "toolchain")
_SLOW = ["jinja2", "numpy", "rich", "torch", *(f"opsmith.{name}" for name in _OURS)]

# Prints the help of every command and of theirs, and which of the modules named by the arguments each has imported.
_PRINT_ALL = """
import json, sys
import click
from click.testing import CliRunner
from opsmith.cli import _cli

imported, slow = {}, set(sys.argv[1:])

def show(command, words):
    done = CliRunner().invoke(_cli, [*words, "--help"])
    assert done.exit_code == 0 and done.output.startswith("Usage:"), done.output
    imported[" ".join(words)] = sorted(slow & sys.modules.keys())
    slow.difference_update(sys.modules)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            show(command.get_command(context, name), [*words, name])

show(_cli, [])
print(json.dumps(imported))
"""


def test_build_offers_every_builder():
    assert tuple(BUILDERS) == _BUILDERS


def test_no_help_imports_what_is_slow():
    done = subprocess.run([sys.executable, "-c", _PRINT_ALL, *_SLOW], timeout=120, capture_output=True, check=True)
    imported = json.loads(done.stdout)
    assert imported.keys() >= {"", *_COMMANDS, "cache key trust"}
    assert {words: modules for words, modules in imported.items() if modules} == {}
