"""What the tests of fast builds share: a torch of two lines, so that its headers compile at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from opsmith.build.existing import assemble_sources, file_sources
from opsmith.build.fast import precompiled, run, slim
from opsmith.build.plan import Plan, Target
from opsmith.build.plan_existing import plan_existing
from opsmith.build.watcher import Watcher
from opsmith.store import Store
from opsmith.toolchain import Toolchain, find_python_headers, find_toolchain


@dataclass(frozen=True)
class Build:
    """What `run_fast` is called with, and the commands that it ran, one list for each round of ninja."""

    plan: Plan
    toolchain: Toolchain
    store: Store
    rounds: list[list[str]]

    def run(self, folder: Path) -> Path:
        """Run the plan in a new folder and return the library."""
        self.rounds.clear()
        folder.mkdir()
        # What was written less than a tick of the clock ago might have been written during the build.
        time.sleep(0.03)
        return run.run_fast(
            self.plan, self.toolchain, Target(), self.store, folder, jobs=2, watcher=Watcher(), is_lasting=True
        )


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Build]:
    """Return a function that plans sources, given by name and text, over a torch that is tiny.

    The whole header has `torch::common` and `torch::rare`, the slim one `torch::common` alone.
    """
    headers = {
        "whole/torch/extension.h": "#pragma once\nnamespace torch { int common(); inline int rare() { return 1; } }\n"
        "#define WHOLE\n#define RARE_MACRO 1\nstruct Rare { int member; };\nusing Rare_alias = int;\n"
        "constexpr int rare_number = 3;\ninline int local(int undeclared) { return undeclared; }\n",
        "slim/torch/extension.h": "#pragma once\n#include <opsmith/slim.h>\n",
        "slim/opsmith/slim.h": "#pragma once\nnamespace torch { int common(); }\n#define SLIM\n",
    }
    for name, text in headers.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(slim, "SLIM_DIR", tmp_path / "slim")
    monkeypatch.setattr(precompiled, "_HEADER", tmp_path / "slim" / "opsmith" / "slim.h")
    monkeypatch.setenv("TORCH_NO_COMPILER_WRAPPER", "1")
    rounds: list[list[str]] = []
    run_steps = run.run_steps

    def counted(plan: Plan, *arguments: object, **more: object) -> str | None:
        rounds.append([" ".join(step.argv) for step in plan.steps])
        return run_steps(plan, *arguments, **more)

    monkeypatch.setattr(run, "run_steps", counted)

    def make(flags: tuple[str, ...] = (), project: str = "project", **texts: str) -> Build:
        files = [tmp_path / project / f"{name}.cpp" for name in texts]
        for file, text in zip(files, texts.values(), strict=True):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        found = find_toolchain(cuda=False, rocm=False)
        toolchain = replace(found, torch=replace(found.torch, include_dirs=(tmp_path / "whole",)))
        extension = assemble_sources("fast", file_sources(files), library="fast.so", cxx_flags=flags)
        plan = plan_existing(extension, toolchain, Target(), python=find_python_headers())
        return Build(plan, toolchain, Store(tmp_path / "store"), rounds)

    return make
