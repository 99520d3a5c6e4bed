"""What compilers read from the environment by themselves is part of what a build is found by."""

from __future__ import annotations

import pytest

from opsmith.build.artifact import COMPILER_VARIABLES, key_inputs
from opsmith.build.discover import discover
from opsmith.build.prepare import prepare


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
