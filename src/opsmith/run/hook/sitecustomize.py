"""Installs the import hook at the start of every Python process below `opsmith run`.

Python imports the first `sitecustomize` of its path at start, and this folder is first. The one that it hides (pip's, in
the environments that pip builds in; a distribution's; the user's) is run afterwards, and is then the module of that name.
"""

from __future__ import annotations

import sys

import opsmith_run_hook

__all__: list[str] = []


def _run_hidden() -> None:
    """Import the sitecustomize that this one hides. What it raises is its own business, as it would be without us."""
    here = opsmith_run_hook.FOLDER
    path, sys.path[:] = sys.path[:], [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401 -- another one: this folder is not on the path now
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours
    finally:
        # The hidden one may have changed the path. The folder goes back to where it was: some programs make their
        # children's PYTHONPATH from sys.path.
        if here in path and here not in sys.path:
            sys.path.insert(min(path.index(here), len(sys.path)), here)


opsmith_run_hook.install()
_run_hidden()
