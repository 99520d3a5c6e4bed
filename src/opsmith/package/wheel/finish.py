"""Finishes a wheel that a build backend has made: its platform tag says what it needs, and its bytes depend on its content.

Backends tag wheels with the machine that they run on (linux_x86_64), which PyPI refuses and pip installs on systems that
are too old. The tag here is the oldest manylinux policy (PEP 600) whose systems have every symbol that the libraries need,
as `opsmith audit` finds it. Members come in a fixed order with one time stamp and normal permissions, and a bill of
materials is among them (PEP 770).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

from opsmith.build.export import replace_file
from opsmith.errors import BuildError
from opsmith.package.audit.api import read_facts
from opsmith.package.audit.facts import Facts
from opsmith.package.audit.floors import find_floors
from opsmith.package.standalone.copy import standalone_members
from opsmith.package.wheel.bill import bill_of_materials
from opsmith.store import Manifest

__all__ = ["finish_wheel", "is_finished", "source_time"]

# The first moment that a zip archive can tell.
_EPOCH = datetime(1980, 1, 1, tzinfo=timezone.utc)
_UNIX = 3
_BILL = "sboms/opsmith.cdx.json"


def source_time() -> datetime:
    """Return the one time of a wheel's members: SOURCE_DATE_EPOCH (seconds since 1970), or 1980 where that is not set.

    Raises BuildError if the variable is not a number.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return _EPOCH
    try:
        return max(datetime.fromtimestamp(int(text), timezone.utc), _EPOCH)
    except (ValueError, OverflowError, OSError):
        raise BuildError(f"SOURCE_DATE_EPOCH is {text!r}, which is not a number of seconds since 1970") from None


def is_finished(wheel: Path) -> bool:
    """Tell whether a wheel has been finished already: setuptools' command does that itself, other backends do not."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return any(name.endswith(f".dist-info/{_BILL}") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def finish_wheel(wheel: Path, *, standalone: bool = False) -> Path:
    """Write a wheel anew in its folder and return its path; the old one goes where the name changes.

    A wheel without libraries, with a platform tag of a policy already, or whose libraries fit no policy keeps its tags. With
    `standalone` it gets a copy of what it needs of opsmith.
    Raises BuildError if the file is not a wheel, or its modules need more of opsmith than a standalone wheel has.
    """
    facts = read_facts(wheel)
    if facts.wheel is None:
        raise BuildError(f"{wheel}: {facts.problems[0].title}: {facts.problems[0].detail}")
    platform = _platform(facts)
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = next(f"{PurePosixPath(name).parts[0]}/" for name in members if ".dist-info/" in name)
    if standalone:
        members = standalone_members(members, info, [item.path for item in facts.libraries if item.manifest])
    if platform:
        members[f"{info}WHEEL"] = _with_platform(members[f"{info}WHEEL"], platform)
    for library in facts.libraries:
        if library.manifest is not None:
            beside = str(PurePosixPath(library.path).with_suffix(".json"))
            members[beside] = _undated(library.manifest).to_json().encode()
    if facts.libraries:
        members[f"{info}{_BILL}"] = bill_of_materials(facts)
    members[f"{info}RECORD"] = _record(members, f"{info}RECORD")
    target = wheel.with_name(_renamed(wheel.name, platform)) if platform else wheel
    replace_file(target, _packed(members, info), mode=0o644)
    if target != wheel:
        wheel.unlink()
    return target


def _platform(facts: Facts) -> str:
    """Return the platform tag that a wheel should have in place of its own, or nothing if its own is good."""
    assert facts.wheel is not None
    platforms = {tag.platform for tag in facts.wheel.tags}
    if not facts.libraries or not all(platform.startswith("linux_") for platform in platforms):
        return ""
    return find_floors(facts.libraries).platform


def _with_platform(text: bytes, platform: str) -> bytes:
    lines = [re.sub(r"^(Tag: *[^-]+-[^-]+)-.*", rf"\1-{platform}", line) for line in text.decode().splitlines() if line]
    return ("\n".join(dict.fromkeys(lines)) + "\n").encode()


def _renamed(name: str, platform: str) -> str:
    stem, _, _ = name.removesuffix(".whl").rpartition("-")
    return f"{stem}-{platform}.whl"


def _undated(manifest: Manifest) -> Manifest:
    """Return a library's description with the time of its sources in place of that of the build."""
    return manifest._replace(created=source_time().isoformat(timespec="seconds"))


def _record(members: dict[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerows((name, _digest(data), len(data)) for name, data in sorted(members.items()) if name != own)
    rows.writerow((own, "", ""))
    return text.getvalue().encode()


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _packed(members: dict[str, bytes], info: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for member in _in_order(members, info):
            archive.writestr(_entry(member), members[member])
    return packed.getvalue()


def _in_order(members: Iterable[str], info: str) -> Iterator[str]:
    """Yield the metadata last, and of it the list of files, as the wheel's format asks for."""
    yield from sorted(members, key=lambda name: (name.startswith(info), name == f"{info}RECORD", name))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, source_time().timetuple()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    is_program = ".so" in PurePosixPath(name).suffixes or "/scripts/" in name
    entry.external_attr = (0o100755 if is_program else 0o100644) << 16
    return entry
