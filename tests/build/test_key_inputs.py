"""What a build is found by: commands, compilers and what those read, linked files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsmith._env import VARIABLES
from opsmith.build.discover import discover
from opsmith.build.key import key_inputs
from opsmith.build.prepare import prepare
from opsmith.build.target import Prepared

COMPILER_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "HIPCC_COMPILE_FLAGS_APPEND",
)


@pytest.fixture
def prepared() -> Prepared:
    (group,) = discover("opsmith.ops.add2")
    return prepare(group, ("cpu",))


def differing(before: Prepared, after: Prepared) -> set[str]:
    """Return the inputs of the key that are not the same for two builds."""
    one, other = (key_inputs(build.plan, build.toolchain, build.target) for build in (before, after))
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_a_flag_is_another_build(prepared):
    first, *others = prepared.plan.steps
    step = replace(first, argv=(*first.argv, "-DNDEBUG"))
    changed = replace(prepared, plan=replace(prepared.plan, steps=(step, *others)))
    assert differing(prepared, changed) == {f"command {first.output}"}


@pytest.mark.parametrize(
    ("flag", "is_shared"),
    [
        ("-I{root}/more", True),
        ("-I{root}", True),
        ("--include={root}/more.h", True),
        ("-Xcompiler=-fPIC,-ffile-prefix-map={root}=.", True),
        ("-I{root}_include", False),  # beside the project, where nothing is looked up by the project's name
        ("-I{root}-2/more", False),
        ("-I/elsewhere{root}", False),
    ],
)
def test_a_path_is_the_same_in_two_checkouts_only_below_their_roots(prepared, tmp_path, flag, is_shared):
    def build(root):
        first, *others = prepared.plan.steps
        step = replace(first, argv=(*first.argv, flag.format(root=root)))
        plan = replace(prepared.plan, steps=(step, *others), roots={**prepared.plan.roots, "project": root})
        return replace(prepared, plan=plan)

    one, other = build(tmp_path / "one"), build(tmp_path / "other")
    changed = {f"command {prepared.plan.steps[0].output}"}
    assert changed.isdisjoint(differing(one, other)) is is_shared


def test_a_compiler_of_another_release_is_another_build(prepared):
    host = replace(prepared.toolchain.host, release=f"{prepared.toolchain.host.release}.1")
    changed = replace(prepared, toolchain=replace(prepared.toolchain, host=host))
    assert differing(prepared, changed) == {"compiler host"}


def test_another_torch_is_another_build_where_its_cpp_api_is_used_and_only_there(prepared):
    torch = replace(prepared.toolchain.torch, version="2.99.0")
    other_torch = replace(prepared, toolchain=replace(prepared.toolchain, torch=torch))
    assert differing(prepared, other_torch) == set()
    sources = tuple(replace(source, api="full") for source in prepared.plan.extension.sources)
    plan = replace(prepared.plan, extension=replace(prepared.plan.extension, sources=sources))
    assert differing(replace(prepared, plan=plan), replace(other_torch, plan=plan)) == {"torch"}


def test_the_content_of_a_linked_file_is_part_of_the_key(prepared, tmp_path):
    archive = tmp_path / "libmath.a"
    extension = replace(prepared.plan.extension, link_flags=("-lm", str(archive)))
    build = replace(prepared, plan=replace(prepared.plan, extension=extension))
    archive.write_bytes(b"one")
    before = key_inputs(build.plan, build.toolchain, build.target)
    archive.write_bytes(b"two")
    after = key_inputs(build.plan, build.toolchain, build.target)
    assert {name for name in before if before[name] != after[name]} == {f"linked {archive}"}


def test_the_table_names_what_compilers_read():
    assert {variable.name for variable in VARIABLES if variable.role == "compiler"} == set(COMPILER_VARIABLES)


@pytest.mark.parametrize("name", COMPILER_VARIABLES)
def test_a_variable_that_compilers_read_is_another_build(name, prepared, monkeypatch):
    for variable in COMPILER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    before = key_inputs(prepared.plan, prepared.toolchain, prepared.target)
    monkeypatch.setenv(name, "/elsewhere")
    after = key_inputs(prepared.plan, prepared.toolchain, prepared.target)
    assert before.items() < after.items()
    assert after.keys() - before.keys() == {"environment"}
