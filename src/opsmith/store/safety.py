"""Finds who else could write to a folder, and so run code as the user who loads a library from it.

A folder is safe where it, and every folder above it, belongs to this user or to root and no one else may write to it. A
group does not count if it is root's, or the user's private one (the group of his own name with no other member, nor
anyone whose primary group it is, which is why a umask of 002 does no harm). A sticky folder above (/tmp) is safe, since
what is in it stays its owner's. An access control list of POSIX counts as well: the mode of the file then shows the most
that any of its entries grants, in the bits of the group. Lists of NFSv4 are not looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from opsmith import _env
from opsmith.errors import StoreError
from opsmith.store.acl import Grant, group_name, read_acl, user_name

__all__ = ["find_danger", "is_private", "make_folder", "refuse_unsafe", "seal_tree"]

_FOLDER_MODE = 0o755
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0

# What OPSMITH_CACHE_TRUST says for a store that everyone may write to.
_EVERYONE = "everyone"


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; only the owner can write to them, whatever the umask. Raises OSError."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def seal_tree(folder: Path, mode: int) -> None:
    """Remove everyone else's write permission in a tree, and give its folders `mode`. Raises OSError."""
    for base, _, names in os.walk(folder):
        Path(base).chmod(mode & _FOLDER_MODE)
        for name in names:
            path = Path(base, name)
            if not path.is_symlink() and (before := path.stat().st_mode) & _OTHERS_WRITE:
                path.chmod(stat.S_IMODE(before) & ~_OTHERS_WRITE)


def refuse_unsafe(*folders: Path) -> None:
    """Raise StoreError if others could write to one of the folders or, in a folder above, put another in its place.

    The first folder is named in the message, as the store's or whatever it is. Those that do not exist are not a danger.
    """
    if (danger := find_danger(*folders)) is not None:
        raise StoreError(
            f"opsmith does not load anything from {folders[0]}: {danger}. Anyone who can write there can run code as you. "
            "Set OPSMITH_CACHE_DIR to a folder of your own (to share builds with others, see OPSMITH_STORE)"
        )


def find_danger(*folders: Path) -> str | None:
    """Return who could write to one of the folders, and the remedy, or None if only this user and root can."""
    if not hasattr(os, "geteuid"):  # Windows has other rules, and each user's own cache folder by default
        return None
    for folder in folders:
        if (danger := _danger(folder, is_parent=False)) is not None:
            return danger
    for parent in _parents(folders[0]):
        if (danger := _danger(parent, is_parent=True)) is not None:
            return danger
    return None


def is_private(path: Path) -> bool:
    """Tell whether a file or folder is there and only this user and root can write to it."""
    return not hasattr(os, "geteuid") or (path.exists() and _danger(path, is_parent=False) is None)


def _parents(folder: Path) -> Iterator[Path]:
    """Yield the folders above, by the name that is used and, where there are links, by the real one."""
    yield from folder.parents
    if (real := Path(os.path.realpath(folder))) != folder:
        yield from real.parents


def _danger(path: Path, *, is_parent: bool) -> str | None:
    try:
        status = path.stat()
    except OSError:
        return None
    if _EVERYONE in _trusted():
        return None
    return _danger_of_owner(path, status.st_uid, is_parent=is_parent) or (
        None if is_parent and status.st_mode & stat.S_ISVTX else _danger_of_mode(path, status)
    )


def _danger_of_owner(path: Path, uid: int, *, is_parent: bool) -> str | None:
    if uid in (_ROOT, os.geteuid()) or f"user:{user_name(uid)}" in _trusted() or (is_parent and _is_outside(uid)):
        return None
    name = user_name(uid)
    return f"{path} belongs to {name} (chown it, or trust that account with OPSMITH_CACHE_TRUST=user:{name})"


def _danger_of_mode(path: Path, status: os.stat_result) -> str | None:
    if status.st_mode & stat.S_IWOTH:
        return f"everyone can write to {path} (fix it with `chmod go-w {path}`)"
    # Without the group's bit no entry of an access control list can write either.
    if not status.st_mode & stat.S_IWGRP:
        return None
    grants = read_acl(path)
    for grant in (Grant("group", status.st_gid),) if grants is None else grants:
        if not _is_harmless(grant):
            who = f"{'the group ' if grant.kind == 'group' else ''}{grant.name}"
            every = "all its members" if grant.kind == "group" else "that account"
            return (
                f"{who} can write to {path} (fix it with `chmod g-w {path}`, or trust {every} with "
                f"OPSMITH_CACHE_TRUST={grant.kind}:{grant.name})"
            )
    return None


def _trusted() -> frozenset[str]:
    return frozenset((_env.read("OPSMITH_CACHE_TRUST") or "").replace(",", " ").split())


@cache
def _is_outside(uid: int) -> bool:
    """Tell whether a user id stands for those that a container does not know: its host's root owns its folders above."""
    try:
        maps = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False
    return maps != ["0", "0", "4294967295"] and uid == overflow


def _is_harmless(grant: Grant) -> bool:
    if grant.kind == "group":
        return _is_harmless_group(grant.number)
    return grant.number in (_ROOT, os.geteuid()) or f"user:{grant.name}" in _trusted()


def _is_harmless_group(gid: int) -> bool:
    return gid == _ROOT or f"group:{group_name(gid)}" in _trusted() or _is_private_group(gid)


@cache
def _is_private_group(gid: int) -> bool:
    """Tell whether a group is that which many systems give to each user alone."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    if group.gr_name != user.pw_name or gid != user.pw_gid or not set(group.gr_mem) <= {user.pw_name}:
        return False
    # A group does not list those whose primary group it is.
    return all(other.pw_gid != gid or other.pw_uid == user.pw_uid for other in pwd.getpwall())
