"""What compilers read from the environment by themselves is part of what a build is found by."""

from __future__ import annotations

import pytest

from opsmith._env import VARIABLES
from opsmith.build.discover import discover
from opsmith.build.key import key_inputs
from opsmith.build.prepare import prepare

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


def test_the_table_names_what_compilers_read():
    assert {variable.name for variable in VARIABLES if variable.role == "compiler"} == set(COMPILER_VARIABLES)


@pytest.mark.parametrize("name", COMPILER_VARIABLES)
def test_a_variable_that_compilers_read_is_another_build(name, monkeypatch):
    (group,) = discover("opsmith.ops.add2")
    prepared = prepare(group, ("cpu",))
    for variable in COMPILER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    before = key_inputs(prepared.plan, prepared.toolchain, prepared.target)
    monkeypatch.setenv(name, "/elsewhere")
    after = key_inputs(prepared.plan, prepared.toolchain, prepared.target)
    assert before.items() < after.items()
    assert after.keys() - before.keys() == {"environment"}
