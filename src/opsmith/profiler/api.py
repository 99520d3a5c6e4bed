"""`opsmith.profile(op)`: profile one operator, or several, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, overload

import torch

from opsmith.benchmark.api import bench_subject
from opsmith.errors import ArgumentError
from opsmith.profiler.calls import PHASES
from opsmith.profiler.result import ProfileReport
from opsmith.profiler.run import ProfileOptions, run_profile
from opsmith.subject.selection import dtype_names, several_operators

__all__ = ["ProfileReports", "profile", "profile_options"]

_Examples = Callable[[], Iterable[Any]] | Iterable[Any] | None


class ProfileReports(tuple[ProfileReport, ...]):
    """The profiles of several operators."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether the parts add up in all of them."""
        return all(report.ok for report in self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@overload
def profile(
    op: ModuleType | list[Any] | tuple[Any, ...],
    *,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] | str = (),
    ncu: bool = True,
    seed: int = 0,
) -> ProfileReports: ...
@overload
def profile(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] | str = (),
    trace: str | Path | None = None,
    ncu: bool = True,
    seed: int = 0,
) -> ProfileReport: ...
def profile(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] | str = (),
    trace: str | Path | None = None,
    ncu: bool = True,
    seed: int = 0,
) -> ProfileReport | ProfileReports:
    """Say where the time of one call goes, and on a GPU what it runs there.

    `op` is what `opsmith.bench` takes. The parts of a call are known of operators that opsmith builds: they are built once
    more with clocks inside. Of others the whole call is timed, and its kernels. A module stands for the operators that it
    declares; ProfileReports come back for it, and for a list.

    `device` is "cuda" where there is a GPU and the operator has something for it, else "cpu"; `dtype` is float32 where the
    operator takes that. `sizes` are mappings from the definition's names, `{"B": 64, "N": 4096}`; without them a small one
    and a large one are taken.
    `phases` are "forward", "recording" (a forward that needs a gradient) and "backward". `trace` is a file for a Chrome
    trace of some calls of the last phase at the largest size. With `ncu` Nsight Compute is asked on a GPU, where it is
    installed.

    Raises ArgumentError for names that do not exist and where there is nothing to call with, and BuildError where the
    operator cannot be built.
    """
    options = profile_options(phases=phases, dtype=dtype, sizes=sizes, trace=trace, ncu=ncu, seed=seed)
    several = several_operators(op)
    if several is None:
        return run_profile(*bench_subject(op, device, reference=reference, examples=examples, seed=seed), options)
    if reference is not None or examples is not None or trace is not None:
        raise ArgumentError("reference=, examples= and trace= belong to one operator; profile several one by one")
    return ProfileReports(run_profile(*bench_subject(one, device, seed=seed), options) for one in several)


# `opsmith.profile.ProfileReport`, from when opsmith.profile was a package; deprecated (see opsmith._former_package).
vars(profile).update(ProfileReport=ProfileReport, ProfileReports=ProfileReports)


def profile_options(
    *,
    phases: Iterable[str] | str = (),
    dtype: str | torch.dtype | None = None,
    sizes: Iterable[Mapping[str, int]] = (),
    trace: str | Path | None = None,
    ncu: bool = True,
    seed: int = 0,
) -> ProfileOptions:
    """Return the options of a profile; raises ArgumentError for a phase or an element type that does not exist."""
    wanted = (phases,) if isinstance(phases, str) else tuple(phases)
    if unknown := [name for name in wanted if name not in PHASES]:
        raise ArgumentError(f"there is no phase {unknown[0]!r}; there are {', '.join(PHASES)}")
    chosen = tuple(phase for phase in PHASES if not wanted or phase in wanted)
    name = None if dtype is None else dtype_names((dtype,))[0]
    file = None if trace is None else Path(trace)
    return ProfileOptions(chosen, name, tuple(map(dict, sizes)), seed=seed, trace=file, ncu=ncu)
