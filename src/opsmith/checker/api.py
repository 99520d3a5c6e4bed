"""`opsmith.check(op)`: check one operator, or several, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, overload

import torch

from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import Options, run_check
from opsmith.errors import ArgumentError, CheckError
from opsmith.subject.selection import dtype_names, several_operators
from opsmith.subject.subject import subject_of

__all__ = ["Reports", "check"]

_Examples = Callable[[], Iterable[Any]] | Iterable[Any] | None


class Reports(tuple[Report, ...]):
    """What the check of several operators found: a tuple of reports, with what they come to."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed in any of them."""
        return all(report.ok for report in self)

    @property
    def failed(self) -> tuple[str, ...]:
        """What failed, as `operator: property`."""
        return tuple(f"{report.operator}: {name}" for report in self for name in report.failed)

    def raise_if_failed(self) -> None:
        """Raise CheckError with the reports of the operators in which something failed."""
        if not self.ok:
            raise CheckError("\n\n".join(str(report) for report in self if not report.ok))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@overload
def check(
    op: ModuleType | list[Any] | tuple[Any, ...],
    *,
    devices: Iterable[str] | str | None = None,
    dtypes: Iterable[str | torch.dtype] | None = None,
    properties: Iterable[str] | None = None,
    seed: int | None = None,
    thorough: bool = False,
    large: bool = False,
) -> Reports: ...
@overload
def check(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    devices: Iterable[str] | str | None = None,
    dtypes: Iterable[str | torch.dtype] | None = None,
    properties: Iterable[str] | None = None,
    seed: int | None = None,
    thorough: bool = False,
    large: bool = False,
) -> Report: ...
def check(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    devices: Iterable[str] | str | None = None,
    dtypes: Iterable[str | torch.dtype] | None = None,
    properties: Iterable[str] | None = None,
    seed: int | None = None,
    thorough: bool = False,
    large: bool = False,
) -> Report | Reports:
    """Check that an operator is what its reference says, and return what was found.

    `op` is an operator of opsmith's, one of `torch.ops`, one made with `torch.library.custom_op`, or any function; for
    all but the first, `reference` is the same in plain PyTorch. A module stands for the operators that it declares, and a
    list for its items; Reports come back for those. `examples` are calls to make besides the generated ones, or a function
    that returns them: each a tuple of arguments or a dict by name, in a list or in a dict that names each call. They are
    needed where the reference is not annotated as a definition is.

    `devices` ("cpu", "cuda"), `dtypes` ("float32" or torch.float32) and `properties` (names, see docs/check.md) select what
    is checked; by default everything that the operator declares and this machine has. The same `seed` makes the same
    inputs; the default is 0, so that a run differs from the one before only where the code does. `thorough` tries more
    inputs, and `large` those of more than 2^31 elements too.

    The work is done in child processes, so that a crash is a finding. Nothing is raised for what is found; ask
    `report.ok`, or call `report.raise_if_failed()`. Raises ArgumentError where there is nothing to compare with or to call
    with, and BuildError where the operator cannot be built.
    """
    options = Options(
        properties=chosen(tuple(properties or ())),
        dtypes=dtype_names(dtypes or ()),
        thorough=thorough,
        large=large,
    )
    wanted = (devices,) if isinstance(devices, str) else None if devices is None else tuple(devices)
    several = several_operators(op)
    if several is None:
        subject = subject_of(op, reference=reference, examples=examples, devices=wanted, seed=seed or 0)
        return run_check(subject, options)
    if reference is not None or examples is not None:
        raise ArgumentError("reference= and examples= belong to one operator; check several one by one")
    return Reports(run_check(subject_of(one, devices=wanted, seed=seed or 0), options) for one in several)
