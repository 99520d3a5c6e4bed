"""Two checkouts of one project and one store: each gets the binary of its own headers, wherever those lie."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from forks import python_c

pytestmark = pytest.mark.compile

# One process has one module of a name.
_BUILD = """
import sys
from pathlib import Path
from opsmith.build.artifact import obtain_artifact
from opsmith.build.discover import discover
from opsmith.build.prepare import prepare
from opsmith.store import Store, default_root

(group,) = discover(sys.argv[1])
assert group.file.is_relative_to(Path(sys.argv[1]).resolve()), group.file
prepared = prepare(group, ("cpu",))
print(obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, Store(default_root())).key)
"""


def built(checkout: Path) -> str:
    done = python_c(_BUILD, [str(checkout / "user_scale")], env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def checkout(project: Path) -> Path:
    """Return a checkout whose kernel includes a header from outside of its package."""
    kernels, shared = project / "user_scale" / "kernels", project / "shared"
    shared.mkdir()
    (kernels / "scale.h").rename(shared / "scale.h")
    kernel = kernels / "scale.cpp"
    kernel.write_text(kernel.read_text().replace('"scale.h"', '"../../shared/scale.h"'))
    return project


def edited(checkout: Path) -> Path:
    header = checkout / "shared" / "scale.h"
    header.write_text(header.read_text().replace("x * C(factor)", "x * C(factor) + C(1)"))
    return checkout


@pytest.mark.parametrize(
    "through_a_link", [False, pytest.param(True, marks=pytest.mark.slow("builds in five processes"))]
)
def test_a_header_outside_of_the_project_is_that_of_the_checkout_that_asks(
    checkout: Path, tmp_path: Path, empty_store: Path, through_a_link: bool
) -> None:
    other = tmp_path / "another" / "checkout"
    shutil.copytree(checkout, other)
    if through_a_link:
        link = tmp_path / "link"
        link.symlink_to(checkout)
        checkout = link
    first = built(checkout)
    assert built(other) == first
    assert built(edited(other)) != first
    assert built(checkout) == first
    shutil.rmtree(checkout.resolve())
    assert built(other) != first


@pytest.mark.slow("builds in a process")
def test_what_a_library_says_of_its_files_is_of_its_project(checkout: Path, empty_store: Path) -> None:
    """Beside an installed library `../shared` would be another package."""
    describe = """
from opsmith.build.export import describe_stored
store = Store(default_root())
(artifact,) = (one for one in store.artifacts() if one.manifest.kind == "library")
print(*describe_stored(artifact, store, prepared.plan, group.definitions).inputs, sep="\\n")
"""
    done = python_c(_BUILD + describe, [str(checkout / "user_scale")], env=os.environ)
    files = [line for line in done.stdout.splitlines() if line.startswith("file ")]
    assert files == ["file kernels/scale.cpp"], done.stdout + done.stderr


@pytest.mark.slow("builds in four processes")
def test_headers_that_include_each_other_outside_of_the_project(
    checkout: Path, tmp_path: Path, empty_store: Path
) -> None:
    shared = checkout / "shared"
    (shared / "scale.h").rename(shared / "inner.h")
    (shared / "scale.h").write_text('#include "inner.h"\n')
    other = tmp_path / "another"
    shutil.copytree(checkout, other)
    first = built(checkout)
    (other / "shared" / "scale.h").write_text('#include "inner.h"\n#define UNUSED\n')
    inner = other / "shared" / "inner.h"
    assert built(other) != first
    (other / "shared" / "scale.h").write_text('#include "inner.h"\n')
    assert built(other) == first
    inner.write_text(inner.read_text().replace("x * C(factor)", "x * C(factor) + C(1)"))
    assert built(other) != first
