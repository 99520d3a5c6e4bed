"""Each command's help ends with examples, whose options exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from opsmith.cli import _cli
from opsmith.cli.examples import EXAMPLES


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the command line with its words, and those of groups."""

    def below(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                assert member is not None
                yield from below(member, f"{words} {name}".strip())

    yield from below(_cli, "")


def own_words(example: str) -> list[str]:
    """Return the arguments that an example gives to opsmith, without what the shell makes of the rest of the line."""
    words = shlex.split(example, comments=True)
    start = words.index("opsmith") if "opsmith" in words else len(words)
    stops = (index for index, word in enumerate(words) if index > start and word in {">", "|", "2>&1"})
    return words[start + 1 : next(stops, len(words))]


def test_every_command_has_examples_in_its_help():
    found = dict(commands())
    assert found.keys() == EXAMPLES.keys()
    for words in found:
        shown = CliRunner().invoke(_cli, [*words.split(), "--help"]).output
        assert "Examples:\n" in shown, words
        for example in EXAMPLES[words]:
            assert f"    {example}\n" in shown, words
            assert len(example) <= 95


@pytest.mark.parametrize("words", [words for words in EXAMPLES if words])
def test_an_example_is_of_its_command_and_its_options_exist(words):
    assert any(f"opsmith {words}" in example for example in EXAMPLES[words])
    for example in EXAMPLES[words]:
        command, given = _cli, own_words(example)
        context = click.Context(_cli, info_name="opsmith")
        while isinstance(command, click.Group) and given:
            name, *given = given
            found = command.get_command(context, name)
            assert found is not None, example
            command = found
        options, _, _ = command.make_parser(click.Context(command, parent=context)).parse_args(given)
        for parameter in command.params:
            if isinstance(parameter.type, click.Choice) and parameter.name in options:
                value = options[parameter.name]
                for one in value if parameter.multiple else [value]:
                    parameter.type.convert(one, parameter, context)


def test_an_unknown_option_in_an_example_would_be_found():
    command = _cli.get_command(click.Context(_cli), "doctor")
    with pytest.raises(click.NoSuchOption):
        command.make_parser(click.Context(command)).parse_args(["--build"])


def test_an_archive_of_the_store_is_named_as_the_zip_file_that_it_is():
    files = [own_words(example)[2] for words in ("cache export", "cache import") for example in EXAMPLES[words]]
    assert [file.rpartition(".")[2] for file in files] == ["zip", "zip"]
