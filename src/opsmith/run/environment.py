"""Makes the environment in which every Python process takes opsmith's module for torch.utils.cpp_extension."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from opsmith.run.hook.opsmith_run_hook import SERVED

__all__ = ["HOOK_FOLDER", "lent_folders", "redirected"]

HOOK_FOLDER = Path(__file__).resolve().parent / "hook"


def redirected(environment: Mapping[str, str], *, report: str | None = None) -> dict[str, str]:
    """Return an environment with the hook's folder first on PYTHONPATH. Doing so twice changes nothing more.

    `report` is OPSMITH_RUN_REPORT for the processes: "1" for stderr, else a file.
    """
    hook = str(HOOK_FOLDER)
    others = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder and folder != hook]
    changed = {
        "PYTHONPATH": os.pathsep.join([hook, *others]),
        "OPSMITH_RUN_PATH": os.pathsep.join(lent_folders()),
    }
    if report is not None:
        changed["OPSMITH_RUN_REPORT"] = report
    return {**environment, **changed}


def lent_folders() -> list[str]:
    """Return the folders from which a process without opsmith gets it and what it requires."""
    folders: dict[str, None] = {}
    for name in sorted(SERVED):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent
            folders[str(folder.parent if spec.submodule_search_locations else folder)] = None
    return list(folders)
