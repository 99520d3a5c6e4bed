"""PyTorch's own judges: torch.library.opcheck, and the checks that its own operators are put through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator, each_traced
from torch import Tensor
from torch.testing._internal.optests import aot_autograd_check, fake_check

from some import some

pytestmark = pytest.mark.compile


def views(case: Case) -> Iterator[tuple[Tensor, ...]]:
    """Yield arguments as they may come: plain, without a gradient, transposed, as slices, with a batch of none and one."""
    yield case.make()
    yield case.make(requires_grad=False)
    yield tuple(t.detach().t().contiguous().t().requires_grad_() for t in case.make())
    yield tuple(t.detach().repeat_interleave(2, dim=-1)[..., ::2].requires_grad_() for t in case.make())
    yield case.make(0)
    yield case.make(1)
    yield case.make(dtype=torch.float32)


@pytest.mark.nightly("every test utility of opcheck; make test has its parts")
@each_case
def test_opcheck(case: Case):
    for arguments in views(case):
        found = torch.library.opcheck(case.operator.torch_op, arguments)
        assert found == dict.fromkeys(found, "SUCCESS")
        assert len(found) == 4


@each_traced
@pytest.mark.parametrize("dynamic", some([True, False], 1, "traces of every operator"))
def test_aot_autograd_check(case: Case, dynamic: bool):
    for arguments in (case.make(), case.make(1)):
        aot_autograd_check(case.found, arguments, {}, dynamic=dynamic)


@each_case
def test_fake_check(case: Case):
    for arguments in views(case):
        fake_check(case.found, arguments, {})


@each_operator
def test_the_schema_says_what_the_operator_does(case: Case):
    """An operator writes to no argument and returns no alias: what PyTorch's functional passes rely on."""
    schema = case.operator.torch_op._schema
    assert not schema.is_mutable
    assert not any(argument.alias_info for argument in (*schema.arguments, *schema.returns))
    arguments = case.make()
    before = [argument.detach().clone() for argument in arguments]
    versions = [argument._version for argument in arguments]
    results = case.found(*arguments)
    assert [argument._version for argument in arguments] == versions
    torch.testing.assert_close([argument.detach() for argument in arguments], before, rtol=0, atol=0)
    storages = [tensor.untyped_storage().data_ptr() for tensor in (*arguments, *results)]
    assert len(set(storages)) == len(storages)
