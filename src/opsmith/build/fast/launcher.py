"""Finds the user's compiler cache (ccache, sccache) and puts it in front of compile commands."""

from __future__ import annotations

import shutil
from dataclasses import replace

from opsmith import _env
from opsmith.build.plan import Step
from opsmith.toolchain import Toolchain

__all__ = ["find_launcher", "launched_step"]

_LAUNCHERS = ("ccache", "sccache")


def find_launcher(toolchain: Toolchain) -> str | None:
    """Return the path of ccache or sccache, or None.

    None too where CXX names a launcher already, and where TORCH_NO_COMPILER_WRAPPER is set, as for PyTorch.
    """
    if _env.read("TORCH_NO_COMPILER_WRAPPER") is not None or toolchain.host.launcher:
        return None
    return next(filter(None, map(shutil.which, _LAUNCHERS)), None)


def launched_step(step: Step, launcher: str) -> Step:
    """Return the step with the launcher before its compiler."""
    return replace(step, argv=(launcher, *step.argv))
