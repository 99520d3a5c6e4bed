"""Redirects `import torch.utils.cpp_extension` to opsmith's module in processes below `opsmith run`.

This runs at the start of every Python process below `opsmith run`, most of which never import that module. So it imports
only what Python has loaded by then, and does nothing before that module is imported. It is not part of the package
`opsmith`, which the process may not even have: pip builds in environments that hold only a project's requirements.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing's, which is not imported yet
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["FOLDER", "SERVED", "install"]

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 -- pathlib is not imported yet

_ASKED = "torch.utils.cpp_extension"
_GIVEN = "opsmith.cpp_extension"

# opsmith and everything it requires but torch: what a process may find in the environment of `opsmith run` where it has
# none of its own.
SERVED = frozenset(
    {
        "click",
        "filelock",
        "jaxtyping",
        "jinja2",
        "markdown_it",
        "markupsafe",
        "mdurl",
        "ninja",
        "opsmith",
        "packaging",
        "platformdirs",
        "pygments",
        "rich",
        "tomli",
        "wadler_lindig",
    }
)


def install() -> None:
    """Put the finder first. Doing so twice does no harm."""
    if not any(isinstance(finder, _Redirect) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Redirect())


class _Redirect:
    """A finder that knows one module to replace, and two of pip's after whose import there is something to do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _ASKED:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, _Drop(), origin=_GIVEN)  # type: ignore[arg-type]
        if name == "pip._internal":
            sys.addaudithook(_keep_first)
        elif name == "pip._internal.cache":
            return _spec_with(name, path, _separate_wheels)
        return None


class _Drop:
    """A loader that makes the module asked for and opsmith's one and the same object, so that assignments to it act."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        import importlib

        folders = [folder for folder in os.environ.get("OPSMITH_RUN_PATH", "").split(os.pathsep) if folder]
        if not any(isinstance(finder, _Lender) for finder in sys.meta_path):
            sys.meta_path.append(_Lender(folders))
        try:
            given = importlib.import_module(_GIVEN)
        except (ImportError, SyntaxError) as error:
            message = (
                f"opsmith run: {_GIVEN} cannot be imported by {sys.executable} ({error}). Install opsmith into that "
                "environment, or run the command without `opsmith run` to use PyTorch's own"
            )
            raise ImportError(message, name=_ASKED) from error
        # The import system takes what stands here after this for the module, and puts it into its parent too.
        sys.modules[_ASKED] = given
        _report(given)


class _Lender:
    """The last finder of all: opsmith and what it needs, and nothing else, from the environment of `opsmith run`."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None and name in SERVED:
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(name, self._folders, target)
        return None


class _Then:
    """A loader that does as another does, and then one thing more."""

    def __init__(self, loader: Loader, action: Callable[[ModuleType], None]) -> None:
        self._loader, self._action = loader, action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._action(module)


def _spec_with(name: str, path: Sequence[str] | None, action: Callable[[ModuleType], None]) -> ModuleSpec | None:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = _Then(spec.loader, action)  # type: ignore[assignment]
    return spec


def _keep_first(event: str, arguments: tuple[Any, ...]) -> None:
    """See to it that the processes that pip starts have this folder first on PYTHONPATH: pip replaces that variable."""
    if event != "subprocess.Popen":
        return
    environment = os.environ if arguments[3] is None else arguments[3]
    if not (environment is os.environ or isinstance(environment, dict)):
        return
    given = environment.get("PYTHONPATH") or ""
    folders = [folder for folder in given.split(os.pathsep) if folder]
    if folders[:1] != [FOLDER]:
        environment["PYTHONPATH"] = os.pathsep.join([FOLDER, *(folder for folder in folders if folder != FOLDER)])


def _separate_wheels(module: ModuleType) -> None:
    """Give wheels that are built here a place of their own in pip's cache.

    pip would else take one that PyTorch's tool has built before, and later serve one built here to others.
    """
    get_parts = getattr(getattr(module, "Cache", None), "_get_cache_path_parts", None)
    if get_parts is None:  # another pip than those known: its cache stays shared, and `--no-cache-dir` helps
        return

    def separate(cache: Any, link: Any) -> list[str]:
        *folders, last = get_parts(cache, link)
        return [*folders, f"{last}-opsmith"]

    module.Cache._get_cache_path_parts = separate


def _report(given: ModuleType) -> None:
    """Tell where OPSMITH_RUN_REPORT asks for it: 1 is stderr, anything else a file that lines are added to."""
    report = os.environ.get("OPSMITH_RUN_REPORT")
    if not report:
        return
    command = " ".join(getattr(sys, "orig_argv", sys.argv))
    line = f"opsmith run: {_ASKED} is {given.__file__} in process {os.getpid()}: {command[:200]}\n"
    if report == "1":
        _complain(line)
        return
    try:
        with open(report, "a", encoding="utf-8") as file:  # noqa: PTH123 -- as above
            file.write(line)
    except OSError as error:
        _complain(f"{line}opsmith run: {report} cannot be written: {error}\n")


def _complain(text: str) -> None:
    if sys.stderr is not None:  # a process that was started without
        sys.stderr.write(text)
