"""Prints the folder where find_package(opsmith) finds its package: `opsmith cmake-dir`."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("cmake-dir")
def command() -> None:
    """Print the folder for CMAKE_PREFIX_PATH: cmake -DCMAKE_PREFIX_PATH=$(opsmith cmake-dir) ..."""
    from opsmith.build.cmake import CMAKE_DIR

    click.echo(CMAKE_DIR)
