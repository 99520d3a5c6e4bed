"""Writes a wheel's bill of materials: its libraries with their digests, and what was compiled and linked into them.

The format is CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/), which lies in the metadata as PEP 770 has it. It has
neither a time nor a serial number: the same wheel has the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from opsmith.package.audit.facts import Facts, Library

__all__ = ["bill_of_materials"]


def bill_of_materials(facts: Facts) -> bytes:
    """Return the bill of a wheel's libraries as JSON."""
    wheel = facts.wheel
    assert wheel is not None
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": f"pkg:pypi/{wheel.name}@{wheel.version}",
                "name": wheel.name,
                "version": wheel.version,
                "purl": f"pkg:pypi/{wheel.name}@{wheel.version}",
            },
            "tools": {"components": list(_unique(_tools(facts)))},
        },
        "components": list(_unique(_components(facts))),
    }
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _tools(facts: Facts) -> Iterator[dict[str, Any]]:
    for library in facts.libraries:
        if library.manifest is not None:
            yield {"type": "application", "name": "opsmith", "version": library.manifest.opsmith_version}
            for role, identity in sorted(library.manifest.toolchain.items()):
                yield {"type": "application", "name": role, "version": identity}


def _components(facts: Facts) -> Iterator[dict[str, Any]]:
    for library in facts.libraries:
        yield {
            "type": "file",
            "name": library.path,
            "hashes": [{"alg": "SHA-256", "content": library.sha256}],
        }
        if library.manifest is not None:
            # Its headers are compiled into every library.
            version = library.manifest.opsmith_version
            yield {
                "type": "library",
                "name": "opsmith",
                "version": version,
                "purl": f"pkg:pypi/opsmith@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        if _has_static_cudart(library):
            yield {
                "type": "library",
                "name": "cudart_static",
                "supplier": {"name": "NVIDIA Corporation"},
                "licenses": [{"license": {"name": "NVIDIA CUDA Toolkit EULA"}}],
            }


def _has_static_cudart(library: Library) -> bool:
    return bool(library.cuda) and not any(name.startswith("libcudart") for name in library.elf.needed)


def _unique(items: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for item in items:
        key = json.dumps(item, sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield item
