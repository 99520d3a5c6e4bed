"""Runs a plan through ninja, in parallel, and reports each finished step. Without ninja it goes on without."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from opsmith._subprocess import run
from opsmith.build.jobs import choose_jobs
from opsmith.build.plan import Plan
from opsmith.build.watcher import Progress
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_ninja

__all__ = ["Progress", "ninja_file", "run_plan", "run_steps", "write_files"]

# What ninja prints in front of each finished step; the mark tells its lines from a compiler's.
_STATUS = "@opsmith %f %t %e@ "
_STATUS_LINE = re.compile(r"^@opsmith (?P<done>\d+) (?P<total>\d+) (?P<seconds>[\d.]+)@ (?P<step>.*)$")


# What ninja says last when a signal ended it. Its exit code does not tell: that is a failed command's own.
_INTERRUPTED = "ninja: build stopped: interrupted by user."

# A terminated compiler ends at once; it only has its temporary files to remove.
_PATIENCE_S = 5.0


def write_files(plan: Plan, folder: Path) -> None:
    """Write the plan's generated sources into a build folder; a file that is the same already keeps its time stamp."""
    for name, text in plan.files.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def ninja_file(plan: Plan) -> str:
    """Return the plan as a ninja file."""
    lines = ["ninja_required_version = 1.5", ""]
    for index, step in enumerate(plan.steps):
        lines += [f"rule step{index}", f"  command = {_escape(shlex.join(step.argv))}"]
        lines += [f"  description = {_escape(step.description)}"]
        if step.depfile is not None:
            lines += [f"  depfile = {_escape(step.depfile)}"]
        inputs = " ".join(_escape_path(name) for name in step.inputs)
        lines += [f"build {_escape_path(step.output)}: step{index} {inputs}", ""]
    return "\n".join([*lines, f"default {_escape_path(plan.library)}", ""])


def run_plan(
    plan: Plan,
    folder: Path,
    *,
    jobs: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_output: Callable[[str], None] | None = None,
) -> Path:
    """Build a plan in a folder and return the library.

    `on_progress` gets each finished step, `on_output` of each line that is not ninja's own. Raises CompileError or
    SignatureError if a step fails.
    """
    output = run_steps(plan, folder, jobs=choose_jobs(plan, jobs), on_progress=on_progress, on_output=on_output)
    if output is not None:
        from opsmith.build.diagnose import explain_failure

        raise explain_failure(plan, output)
    return folder / plan.library


def run_steps(
    plan: Plan,
    folder: Path,
    *,
    jobs: int,
    on_progress: Callable[[Progress], None] | None = None,
    on_output: Callable[[str], None] | None = None,
) -> str | None:
    """Run a plan's steps in a folder and return None, or, where one fails, what ninja and the compilers printed.

    What another round has made in the folder already, by the same commands, is not made again.
    """
    write_files(plan, folder)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        ninja = find_ninja()
    except ToolchainError:
        from opsmith.build.without_ninja import run_without_ninja

        return run_without_ninja(
            plan,
            folder,
            jobs=jobs,
            environment=environment,
            prefix=_ending_with_us(),
            on_progress=on_progress,
            on_output=on_output,
        )
    (folder / "build.ninja").write_text(ninja_file(plan), encoding="utf-8")
    argv = [*_ending_with_us(), str(ninja), "-j", str(jobs), "-d", "keepdepfile"]
    output: list[str] = []
    with subprocess.Popen(
        argv,
        cwd=folder,
        env={**environment, "NINJA_STATUS": _STATUS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                text = line.rstrip("\n")
                if (match := _STATUS_LINE.match(text)) is not None:
                    if on_progress is not None:
                        counts = int(match["done"]), int(match["total"]), float(match["seconds"])
                        on_progress(Progress(match["step"], *counts))
                else:
                    output.append(text)
                    if on_output is not None:
                        on_output(text)
        except BaseException:
            _stop(process)
            raise
    if process.returncode == -signal.SIGINT or _INTERRUPTED in output[-1:]:
        # Ctrl-C reaches every process of a terminal, and ninja's end may be seen before Python has its own exception.
        raise KeyboardInterrupt
    return "\n".join(output) if process.returncode != 0 else None


@cache
def _ending_with_us() -> tuple[str, ...]:
    """Return what to start ninja by so that it ends where this process is killed; nothing if there is no such tool.

    A process killed by -9 cannot stop its children. The kernel then interrupts ninja like Ctrl-C, and ninja its
    compilers.
    """
    argv = ("setpriv", "--pdeathsig", "TERM")
    try:
        # An old one, and busybox's, does not know the option.
        return argv if run([*argv, "true"]).status == 0 else ()
    except OSError:
        return ()


def _stop(process: subprocess.Popen[str]) -> None:
    """End ninja and with it every compiler: it forwards signals to its children, which it could not on kill -9."""
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    finally:
        process.kill()


def _escape(text: str) -> str:
    return text.replace("$", "$$").replace("\n", " ")


def _escape_path(text: str) -> str:
    return re.sub(r"([$ :|])", r"$\1", text)
