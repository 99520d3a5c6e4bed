"""Runs a plan with its faster steps, and with the plan's own where one of those turns out wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith.build.diagnose import compiler_output, explain_failure, failed_steps
from opsmith.build.fast.launcher import find_launcher, launched_step
from opsmith.build.fast.mendable import may_be_mended
from opsmith.build.fast.objects import fetch_objects, keep_objects
from opsmith.build.fast.operators import write_operator_headers
from opsmith.build.fast.precompiled import (
    Loan,
    Precompiled,
    describe_precompiled,
    find_precompiled,
    precompile,
    use_precompiled,
)
from opsmith.build.fast.scan import scan_source
from opsmith.build.fast.slim import slim_defines, slim_step
from opsmith.build.jobs import choose_jobs
from opsmith.build.messages import find_messages
from opsmith.build.ninja import run_steps
from opsmith.build.plan import Plan, Step, Target
from opsmith.spec.extension import Source
from opsmith.store import Store, digest
from opsmith.store.safety import make_folder
from opsmith.toolchain import Toolchain

if TYPE_CHECKING:
    from opsmith.build.watcher import Watcher

__all__ = ["run_fast"]

# gcc tidies up its memory while it reads, again and again; with torch's headers that is a sixth of the time, and it saves
# 300 MB of 1.3 GB.
_GCC_UNTIDY = ("--param", "ggc-min-expand=1000", "--param", "ggc-min-heapsize=2000000")


@dataclass(frozen=True)
class _Quick:
    """A step's faster form: with a precompiled header on loan, or with the description of one that would have fitted."""

    step: Step
    is_slim: bool
    loan: Loan | None = None
    precompiled: Precompiled | None = None


def run_fast(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    store: Store,
    folder: Path,
    *,
    jobs: int | None,
    watcher: Watcher,
    is_lasting: bool,
    reuse: bool = True,
) -> Path:
    """Run a plan in a folder and return the library, as `run_plan` does and with the same result.

    `is_lasting` and `reuse` as for `build_into`.

    Raises CompileError or SignatureError if the plan's own steps fail.
    """
    known = fetch_objects(plan, toolchain, target, store, folder) if reuse else frozenset()
    quick = _quick_steps(plan, toolchain, store, folder, known)
    since_ns = time.time_ns()
    doubted: list[str] = []
    try:
        while True:
            steps = [quick[step.output].step if step.output in quick else step for step in plan.steps]
            chosen = replace(plan, steps=tuple(step for step in steps if step.output not in known))
            output = run_steps(
                chosen,
                folder,
                jobs=choose_jobs(plan, jobs),
                on_progress=watcher.on_progress,
                on_output=watcher.on_output,
            )
            if _discard_unsound(quick, folder):
                continue
            if output is None:
                break
            doubtful = _doubtful(plan, output, quick, folder)
            if not doubtful:
                raise explain_failure(chosen, output)
            for name in doubtful:
                del quick[name]
            doubted += doubtful
    finally:
        _discard_unsound(quick, folder)
        keep_objects(plan, toolchain, target, store, folder, known=known, since_ns=since_ns)
    # Only now it is known that the header was at fault, and not an undefined name.
    for name in doubted:
        _remember_whole(plan, _source_of(plan, name), store)
    if is_lasting:
        _precompile_for_next_time(quick, store)
    return folder / plan.library


def _quick_steps(
    plan: Plan, toolchain: Toolchain, store: Store, folder: Path, known: frozenset[str]
) -> dict[str, _Quick]:
    """Return the faster forms of a plan's compile steps, by the name of what they make."""
    launcher = find_launcher(toolchain)
    quick: dict[str, _Quick] = {}
    for source, step in zip(plan.extension.sources, plan.steps, strict=False):
        if source.api != "full" or step.output in known:
            continue
        faster = _slim(plan, source, step, toolchain, store, folder) or _Quick(step, is_slim=False)
        if source.language == "cxx" and toolchain.host.kind == "gcc":
            at = faster.step.argv.index("-MD")
            faster = replace(
                faster, step=replace(faster.step, argv=(*faster.step.argv[:at], *_GCC_UNTIDY, *faster.step.argv[at:]))
            )
        # A compiler cache cannot see into a precompiled header.
        if launcher is not None and "-include" not in faster.step.argv:
            faster = replace(faster, step=launched_step(faster.step, launcher))
        quick[step.output] = faster
    return quick


def _slim(plan: Plan, source: Source, step: Step, toolchain: Toolchain, store: Store, folder: Path) -> _Quick | None:
    if _env.read("OPSMITH_SLIM_HEADERS") == "off" or _whole_note(plan, source, store).exists():
        return None
    scan = scan_source(source, plan.extension.include_dirs)
    defines = slim_defines(scan)
    if defines is None:
        return None
    # The precompiled header is read before all else: nothing of the source's own may come before torch's header.
    may_precompile = source.language == "cxx" and scan.starts_with_torch and _env.read_mode("OPSMITH_PCH") != "off"
    wanted = describe_precompiled(step, toolchain) if may_precompile else None
    loan = _borrow(wanted, store) if wanted is not None else None
    if loan is not None:
        return _Quick(use_precompiled(slim_step(step, defines), loan.header), is_slim=True, loan=loan)
    operators = write_operator_headers(scan.text, toolchain.torch.include_dirs[0], folder / f"{source.name}.headers")
    return _Quick(slim_step(step, (*defines, *operators)), is_slim=True, precompiled=wanted)


def _borrow(wanted: Precompiled, store: Store) -> Loan | None:
    loan = find_precompiled(wanted, store)
    if loan is None and _env.read_mode("OPSMITH_PCH") == "wait":
        precompile(wanted, store)
        return find_precompiled(wanted, store)
    return loan


def _discard_unsound(quick: dict[str, _Quick], folder: Path) -> bool:
    """Undo everything compiled with a damaged precompiled header, and return whether there was any."""
    unsound = [name for name, item in quick.items() if item.loan is not None and not item.loan.is_sound()]
    for name in unsound:
        (folder / name).unlink(missing_ok=True)
        del quick[name]
    return bool(unsound)


def _doubtful(plan: Plan, output: str, quick: Mapping[str, _Quick], folder: Path) -> list[str]:
    """Return the failed steps that may have failed because their headers were slim."""
    messages = find_messages(compiler_output(output))
    failed = [step for step in failed_steps(plan, output) if step.output in quick and quick[step.output].is_slim]
    return [step.output for step in failed if may_be_mended(messages, step, folder)]


def _precompile_for_next_time(quick: Mapping[str, _Quick], store: Store) -> None:
    for wanted in {item.precompiled for item in quick.values() if item.precompiled is not None}:
        precompile(wanted, store)


def _source_of(plan: Plan, output: str) -> Source:
    return next(source for source in plan.extension.sources if f"{source.name}.o" == output)


def _whole_note(plan: Plan, source: Source, store: Store) -> Path:
    """Return the file whose presence says that a source, in whatever version, has needed torch's whole header."""
    name = digest(plan.extension.name, str(plan.extension.root), source.name)
    return store.layout.base / "whole-headers" / name


def _remember_whole(plan: Plan, source: Source, store: Store) -> None:
    note = _whole_note(plan, source, store)
    try:
        make_folder(note.parent)
        note.touch(mode=0o644)
    except OSError:
        return
