"""Profiles operators from Python: `opsmith.profile(op)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opsmith.benchmark.api import bench_subject
from opsmith.profiler.options import ProfileOptions
from opsmith.profiler.result import ProfileReport
from opsmith.profiler.run import run_profile
from opsmith.subject.verb import verb

__all__ = ["ProfileReports", "profile"]


class ProfileReports(tuple[ProfileReport, ...]):
    """The profiles of several operators."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether the parts add up in all of them."""
        return all(report.ok for report in self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@verb(ProfileOptions, ProfileReport, ProfileReports)
def profile(operators: Sequence[Any], options: ProfileOptions) -> Iterator[ProfileReport]:
    """Return where the time of one call goes, and on a GPU which kernels it runs.

    `op` is what `opsmith.bench` takes. The parts of a call are known of operators that opsmith builds: they are built once
    more with clocks inside. Of others the whole call is timed, and its kernels. A module stands for the operators that it
    declares; ProfileReports come back for it, and for a list.

    Raises ArgumentError for names that do not exist and where there is nothing to call with, and BuildError if the
    operator cannot be built.
    """
    for op in operators:
        subject, device = bench_subject(op, options)
        yield run_profile(subject, device, options)


# `opsmith.profile.ProfileReport`, from when opsmith.profile was a package; deprecated (see opsmith._former_package).
vars(profile).update(ProfileReport=ProfileReport, ProfileReports=ProfileReports)
