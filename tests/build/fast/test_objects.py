"""Objects that an earlier build has made serve in the next, in another checkout too."""

from __future__ import annotations

import ctypes
import shutil

import pytest

from opsmith.build.record import read_headers

pytestmark = pytest.mark.compile

TORCH = "#include <torch/extension.h>\n"
A = TORCH + '#include "shared.h"\nextern "C" int a() { return SHARED; }\n'
B = TORCH + '#include "shared.h"\nextern "C" int b() { return SHARED + 1; }\n'


@pytest.fixture
def checkouts(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shared.h").write_text("#define SHARED 5\n")
    return tmp_path


def test_only_what_changed_is_compiled(build, checkouts):
    build(project="one", a=A, b=B).run(checkouts / "x")
    made = build(project="one", a=A, b=B.replace("1", "2"))
    library = ctypes.CDLL(str(made.run(checkouts / "y")))
    assert len(made.rounds[0]) == 2, "b.cpp and the link"
    assert (library.a(), library.b()) == (5, 7)


def test_headers_are_those_of_the_checkout_that_builds(build, checkouts):
    """The other one's would be looked at for edits, or would be gone."""
    build(project="one", a=A, b=B).run(checkouts / "x")
    shutil.rmtree(checkouts / "one")
    made = build(project="two", a=A, b=B.replace("1", "2"))
    made.run(checkouts / "y")
    assert len(made.rounds[0]) == 2, "b.cpp and the link"
    headers = read_headers(made.plan, made.toolchain, checkouts / "y")
    assert [path for path in headers if path.name == "shared.h"] == [checkouts / "two" / "shared.h"]
    (checkouts / "two" / "shared.h").write_text("#define SHARED 6\n")
    library = ctypes.CDLL(str(made.run(checkouts / "z")))
    assert len(made.rounds[0]) == 3
    assert (library.a(), library.b()) == (6, 8)


def test_a_description_of_headers_that_is_damaged_is_not_used(build, checkouts):
    made = build(project="one", a=A, b=B)
    made.run(checkouts / "x")
    for artifact in made.store.artifacts():
        path = artifact.folder / "headers.json"
        path.chmod(0o644)
        path.write_text('["<elsewhere>/shared.h"]')
    made.run(checkouts / "y")
    assert len(made.rounds[0]) == 3
