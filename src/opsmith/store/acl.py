"""Reads whom the access control list of a file or folder lets write to it (POSIX.1e, as Linux keeps it).

The list is an extended attribute: a version, then for each entry its kind, its permissions, and the user's or group's
number, little-endian (linux/posix_acl_xattr.h). What the entries of users and groups grant is limited by the mask.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["Grant", "group_name", "read_acl", "user_name"]

_ATTRIBUTE = "system.posix_acl_access"
_HEAD = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_VERSION = 2

_WRITE = 2
_USER, _GROUP_OBJ, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10


class Grant(NamedTuple):
    """Somebody else than the owner who may write."""

    kind: Literal["user", "group"]
    number: int

    @property
    def name(self) -> str:
        """Name of the account or the group."""
        return user_name(self.number) if self.kind == "user" else group_name(self.number)


def read_acl(path: Path) -> tuple[Grant, ...] | None:
    """Return whom an access control list lets write, or None if there is no list, or none that can be read."""
    try:
        data = os.getxattr(path, _ATTRIBUTE)
        owning_group = path.stat().st_gid
    except (OSError, AttributeError):
        return None
    if len(data) < _HEAD.size or _HEAD.unpack_from(data) != (_VERSION,) or (len(data) - _HEAD.size) % _ENTRY.size:
        return None
    entries = list(_ENTRY.iter_unpack(data[_HEAD.size :]))
    mask = next((permissions for kind, permissions, _ in entries if kind == _MASK), _WRITE)
    return tuple(
        Grant("user" if kind == _USER else "group", owning_group if kind == _GROUP_OBJ else number)
        for kind, permissions, number in entries
        if kind in (_USER, _GROUP_OBJ, _GROUP) and permissions & mask & _WRITE
    )


@cache
def user_name(uid: int) -> str:
    """Return the name of an account, or its number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@cache
def group_name(gid: int) -> str:
    """Return the name of a group, or its number."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
