"""Copies to and from the shared store of OPSMITH_STORE, and manages its keys: `opsmith cache key|push|pull`."""

from __future__ import annotations

import getpass
import platform

import click

from opsmith._printable import printable
from opsmith.store import Store, default_root

__all__ = ["key_group", "pull_command", "push_command"]


@click.group("key")
def key_group() -> None:
    """Manage the signing key and the trusted keys of the shared store."""


@key_group.command("new")
@click.option("--name", help="A comment.  [default: user@host]")
def new(name: str | None) -> None:
    """Create this user's signing key, trust it, and print its public part for others."""
    from opsmith.store.keyring import fingerprint, new_signing_key

    key = new_signing_key(name or f"{getpass.getuser()}@{platform.node()}")
    click.echo(f"fingerprint  {fingerprint(key)}\nothers trust it with:  opsmith cache key trust {key}")


@key_group.command("trust")
@click.argument("key")
@click.option("--name", default="", help="A comment.")
def trust(key: str, name: str) -> None:
    """Trust KEY (ed25519:...): load, and so run, what it has signed in the shared store."""
    from opsmith.store.keyring import fingerprint, trust_key

    trust_key(key, name)
    click.echo(f"trusted: {fingerprint(key)} {name}".rstrip())


@key_group.command("forget")
@click.argument("key")
def forget(key: str) -> None:
    """Stop trusting KEY. Artefacts fetched before stay in the local store."""
    from opsmith.store.keyring import fingerprint, forget_key

    forget_key(key)
    click.echo(f"no longer trusted: {fingerprint(key)}")


@key_group.command("list")
def list_keys() -> None:
    """List the trusted keys, and mark this user's own."""
    from opsmith.store.keyring import fingerprint, has_signing_key, public_key, trusted_keys

    own = public_key() if has_signing_key() else None
    known = trusted_keys()
    for key, comment in known.items():
        click.echo(f"{fingerprint(key)}  {printable(comment) or '-'}{'  (signs here)' if key == own else ''}\n  {key}")
    if own is not None and own not in known:
        click.echo(f"{fingerprint(own)}  signs here but is not trusted\n  {own}")
    if not known and own is None:
        click.echo("no key is trusted; `opsmith cache key new` creates yours")


@click.command("push")
@click.argument("names", nargs=-1)
def push_command(names: tuple[str, ...]) -> None:
    """Sign the artefacts with one of NAMES, or all of them, and upload them to the shared store.

    Your signature says that you would run them. With a signing key every build is uploaded automatically.
    """
    from opsmith.store.select import select_artifacts
    from opsmith.store.shared import push

    store = Store(default_root())
    artifacts = select_artifacts(store, names)
    pushed = push(store, artifacts)
    click.echo(f"{pushed} pushed, {len(artifacts) - pushed} already present")


@click.command("pull")
@click.argument("names", nargs=-1)
def pull_command(names: tuple[str, ...]) -> None:
    """Fetch the artefacts with one of NAMES, or all of them, that trusted keys signed for this kind of machine."""
    from opsmith.store.keyring import fingerprint
    from opsmith.store.shared import pull

    pulled = pull(Store(default_root()), names)
    click.echo(f"{len(pulled.added)} fetched, {pulled.present} already present")
    for key, count in pulled.refused.items():
        click.echo(
            f"{count} rejected: signed by {fingerprint(key)}, which you do not trust. If its owner tells you the same "
            f"fingerprint: opsmith cache key trust {key}",
            err=True,
        )
