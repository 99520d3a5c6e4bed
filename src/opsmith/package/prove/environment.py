"""Makes virtual environments with a given Python and torch, and runs programs in them as a user without a compiler would."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from opsmith._version import __version__
from opsmith.errors import BuildError
from opsmith.package.prove.result import Claim

__all__ = [
    "CPU_INDEX",
    "Environment",
    "MissingError",
    "adopt_environment",
    "find_python",
    "make_environment",
    "own_requirement",
]

# torch without CUDA, which is a tenth of the size: a proof on CPUs needs no more.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_INSTALL_S = 1800.0
_START_S = 60.0
_LAST_LINES = 12


class MissingError(Exception):
    """There is no such Python or torch here: nothing is known of the wheel with it."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment; programs in it see no compiler, no PYTHONPATH and a store of their own.

    `options` are pip's for every installation. `with_own_pip` says that this Python's pip installs into it: making one in
    each environment takes seconds.
    """

    root: Path
    options: tuple[str, ...] = ()
    with_own_pip: bool = False

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python"

    def run(self, *arguments: str | Path, seconds: float) -> subprocess.CompletedProcess[str]:
        """Run Python with arguments; one that takes longer has the exit status 124."""
        dropped = {"PYTHONPATH", "CXX", "CC", "CUDA_HOME", "VIRTUAL_ENV"}
        environment = {name: value for name, value in os.environ.items() if name not in dropped}
        environment |= {
            "PATH": str(self.root / "bin"),
            "OPSMITH_CACHE_DIR": str(self.root / "store"),
            "OPSMITH_QUIET": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        return self._run([str(self.python), *map(str, arguments)], environment, seconds)

    def install(self, *arguments: str | Path) -> str:
        """Run pip install and return what is wrong, or nothing."""
        # Files are compiled when they are first imported, and of torch's few ever are.
        words = ["install", "--quiet", "--no-compile", *self.options, *map(str, arguments)]
        if not self.with_own_pip:
            done = self.run("-m", "pip", *words, seconds=_INSTALL_S)
        else:
            # With PYTHONPATH, pip would take what lies there for installed.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python), *words]
            done = self._run(command, environment, _INSTALL_S)
        return last_lines(done) if done.returncode else ""

    def _run(self, command: list[str], environment: dict[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command, cwd=self.root, env=environment, capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no end within {seconds:.0f} s")


def last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of what a program printed."""
    lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return "\n".join(lines[-_LAST_LINES:])


def find_python(wanted: str) -> Path | None:
    """Return the interpreter of a version such as "3.12": this one, one on PATH, or one of pyenv's or uv's."""
    return next((found for found in _candidates(wanted) if _is_python(found, wanted)), None)


def _candidates(wanted: str) -> Iterator[Path]:
    if wanted == "{}.{}".format(*sys.version_info[:2]):
        yield Path(sys.executable)
    if (found := shutil.which(f"python{wanted}")) is not None:
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{wanted}.*/bin/python{wanted}"), reverse=True)
    if (uv := shutil.which("uv")) is not None:
        asked = [uv, "python", "find", "--no-project", wanted]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            yield Path(done.stdout.strip())


def _is_python(program: Path, wanted: str) -> bool:
    """Tell whether a program is that Python: pyenv has one on PATH for each version that any of its Pythons has."""
    asked = [str(program), "-c", "import sys; print('{}.{}'.format(*sys.version_info[:2]))"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_START_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == wanted


def make_environment(root: Path, claim: Claim, opsmith: Sequence[str], index: str | None) -> Environment:
    """Return a new environment with the claim's torch, from an index or from pip's own, and with opsmith.

    torch has an environment of its own below `root`, which nothing is added to: one that is there already is used again.
    `opsmith` are pip's words for it; nothing if the wheel does without. Raises MissingError where this Python or torch
    cannot be had, and BuildError where opsmith cannot be installed.
    """
    with_torch = _environment_of_torch(root / "torch", claim, index)
    environment = _new_environment(with_torch.python, root / "trial", with_own_pip=with_torch.with_own_pip)
    _show(environment, [_packages_of(with_torch)])
    if opsmith and (problem := environment.install(*opsmith)):
        raise BuildError(f"opsmith cannot be installed for {claim}: {problem}")
    return environment


def adopt_environment(root: Path) -> Environment:
    """Return a new environment that sees all that this process can import, and into which a wheel alone is installed.

    Nothing is taken from a network. Raises MissingError where this Python makes no environments.
    """
    environment = _new_environment(Path(sys.executable), root, with_own_pip=_pip_installs_elsewhere())
    _show(environment, [entry for entry in dict.fromkeys(sys.path) if Path(entry).is_dir()])
    # The package may be installed here in another version.
    return replace(environment, options=("--no-deps", "--no-index", "--force-reinstall"))


def _environment_of_torch(root: Path, claim: Claim, index: str | None) -> Environment:
    interpreter = find_python(claim.python)
    if interpreter is None:
        raise MissingError(f"no python{claim.python} on PATH, nor of pyenv or uv")
    with_own_pip = interpreter == Path(sys.executable) and _pip_installs_elsewhere()
    made_for = f"{claim} from {index}"
    mark = root / "made-for.txt"
    if mark.is_file() and mark.read_text() == made_for and _is_python(root / "bin" / "python", claim.python):
        return Environment(root, with_own_pip=with_own_pip)
    environment = _new_environment(interpreter, root, with_own_pip=with_own_pip)
    where = ("--index-url", index) if index else ()
    # torch alone, so that no dependency selects another build.
    if problem := environment.install(*where, f"torch=={claim.torch}.*"):
        raise MissingError(f"torch {claim.torch} cannot be installed: {problem.splitlines()[-1]}")
    mark.write_text(made_for)
    return environment


def _new_environment(interpreter: Path, root: Path, *, with_own_pip: bool) -> Environment:
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    command = [str(interpreter), "-m", "venv", *(["--without-pip"] if with_own_pip else []), str(root)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_S)
    if made.returncode:
        raise MissingError(f"{interpreter} makes no virtual environment: {last_lines(made)}")
    return Environment(root, with_own_pip=with_own_pip)


def _packages_of(environment: Environment) -> str:
    asked = environment.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", seconds=_START_S)
    return asked.stdout.strip()


def _show(environment: Environment, folders: Iterable[str]) -> None:
    """Let an environment see folders of packages, and what editable installations there put on the path."""
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
    (Path(_packages_of(environment)) / "opsmith-prove.pth").write_text("\n".join([*lines, ""]))


@functools.cache
def _pip_installs_elsewhere() -> bool:
    """Tell whether this Python has a pip with the option --python, which came with 22.3."""
    try:
        major, minor, *_ = version("pip").split(".")
        return (int(major), int(minor)) >= (22, 3)
    except (PackageNotFoundError, ValueError):
        return False


def own_requirement(folder: Path) -> tuple[str, ...]:
    """Return pip's words for the opsmith that runs here: its release, or a wheel of its sources, made in a folder.

    Raises BuildError if no wheel can be made of them.
    """
    sources = _own_sources()
    if sources is None:
        return (f"opsmith=={__version__}",)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_S)
    if done.returncode:
        raise BuildError(f"there is no wheel of the opsmith in {sources}: {last_lines(done)}")
    return (str(next(folder.glob("opsmith-*.whl"))),)


def _own_sources() -> Path | None:
    """Return the checkout that opsmith runs from, or None for a release that was installed."""
    checkout = Path(__file__).resolve().parents[4]
    return checkout if (checkout / "src" / "opsmith").is_dir() and (checkout / "pyproject.toml").is_file() else None
