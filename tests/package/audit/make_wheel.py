"""Makes wheels for the audit's tests, good ones unless a test asks for a fault."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from make_library import library

from opsmith.store import Manifest

TAG = "py3-none-manylinux_2_28_x86_64"
TIME = (2026, 11, 25, 12, 0, 0)


def wheel(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    name: str = "smooth",
    version: str = "1.0",
    tag: str = TAG,
    declared: str | None = None,
    requires: tuple[str, ...] = ("torch>=2.10",),
    licence: bool = True,
    wrong_digest_of: str = "",
    unlisted: str = "",
    absent: str = "",
    times: Mapping[str, tuple[int, int, int, int, int, int]] | None = None,
) -> Path:
    """Write a wheel and return its path."""
    info = f"{name}-{version}.dist-info"
    members = dict(sorted({f"{name}/__init__.py": b"", **files}.items()))
    members[f"{info}/METADATA"] = (
        "\n".join(
            [
                "Metadata-Version: 2.4",
                f"Name: {name}",
                f"Version: {version}",
                *(f"Requires-Dist: {item}" for item in requires),
            ]
        ).encode()
        + b"\n"
    )
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {declared or tag}\n".encode()
    if licence:
        members[f"{info}/licenses/LICENSE"] = b"Apache-2.0\n"
    rows = []
    for path, data in members.items():
        digest = hashlib.sha256(b"other" if path == wrong_digest_of else data).digest()
        encoded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if path != unlisted:
            rows.append(f"{path},sha256={encoded},{len(data)}")
    rows += [f"{absent},sha256=x,1"] if absent else []
    members[f"{info}/RECORD"] = ("\n".join([*rows, f"{info}/RECORD,,"]) + "\n").encode()
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in members.items():
            archive.writestr(zipfile.ZipInfo(file, (times or {}).get(file, TIME)), data, zipfile.ZIP_DEFLATED)
    return path


def description() -> bytes:
    """Return what opsmith writes beside `library()`."""
    data = library()
    described = Manifest(
        name="smooth",
        library="_ops.so",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        inputs={},
        devices=("cpu",),
        archs=(),
        toolchain={"host": "gcc"},
        torch_version=None,
        created="2026-11-25T12:00:00+00:00",
        opsmith_version="0.1.0",
    )
    return described.to_json().encode()
