"""Builds the bridge now instead of in the background: `opsmith bridge`."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("bridge")
def command() -> None:
    """Build the bridge for this torch into the store, unless opsmith-bridge has it, and print its path.

    The bridge makes calls and gradients of operators as cheap as PyTorch's own. By default the first build of an operator
    starts it in the background. Use this command in images and on clusters, where nothing may run in the background,
    or to see why it could not be built. OPSMITH_BRIDGE=off does without it.
    """
    from opsmith.build.announce import announcer
    from opsmith.runtime.bridge_library import build_bridge

    click.echo(build_bridge(announcer("the bridge")))
