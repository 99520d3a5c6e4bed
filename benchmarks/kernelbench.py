"""Judges a copy of each KernelBench problem's own model, which has to be accepted: the rest is about the task.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python benchmarks/kernelbench.py KernelBench/KernelBench [--output benchmarks/results/kernelbench_cpu.json]
                                     [--levels level1 level2 level3] [--log FILE]

Its problems are for a GPU and have up to gigabytes. On a CPU the numbers at the top level of a problem are divided, until a
call takes less than half a second; on a GPU (`--device cuda`) they stay. A run that was killed goes on from its log.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

from opsmith.toolchain.processor import processor_name

LEVELS = ("level1", "level2", "level3")  # level 4 downloads models
# Divisors of numbers, and the batch (0: divided like the others), in the order in which they are tried.
SMALLER = ((16, 2), (4, 2), (64, 2), (256, 2), (1, 2), (1024, 2), (1, 1), (8, 0), (64, 0), (1, 0))
LEAST_DIVIDED, LEAST = 16, 8
MOST_BYTES, MOST_WEIGHTS_BYTES, MOST_S, MOST_MEMORY = 2e6, 6e7, 0.5, 8 << 30
PATIENCE_S = 300


class _Divide(ast.NodeTransformer):
    def __init__(self, divisor: int) -> None:
        self.divisor = divisor

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if type(node.value) is int and node.value >= LEAST_DIVIDED:
            return ast.copy_location(ast.Constant(max(node.value // self.divisor, LEAST)), node)
        return node


def divided(text: str, divisor: int, batch: int) -> str:
    """Return a problem with smaller numbers at its top level."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            is_batch = batch and "batch" in ast.unparse(node.targets[0])
            node.value = ast.Constant(batch) if is_batch else _Divide(divisor).visit(node.value)
    return ast.unparse(ast.fix_missing_locations(tree))


def is_small(text: str) -> bool:
    """Whether a problem's call is quick and small, found out in a process that may fail or take too long."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        signal.alarm(15)
        os._exit(0 if _is_small(text) else 1)
    return os.waitpid(pid, 0)[1] == 0


def _is_small(text: str) -> bool:
    try:
        torch.set_num_threads(1)
        names: dict[str, Any] = {"__name__": "problem"}
        exec(compile(text, "problem.py", "exec"), names)
        inputs = names["get_inputs"]()
        if sum(one.nbytes for one in inputs if isinstance(one, torch.Tensor)) > MOST_BYTES:
            return False
        model = names["Model"](*names["get_init_inputs"]())
        if sum(one.nbytes for one in model.parameters()) > MOST_WEIGHTS_BYTES:
            return False
        model(*inputs)
        begun = time.perf_counter()
        model(*inputs)
        return time.perf_counter() - begun < MOST_S
    except BaseException:
        return False


def problems(folder: Path, levels: Sequence[str] = LEVELS) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of all problems."""
    for level in levels:
        for path in sorted((folder / level).glob("*.py"), key=lambda one: int(one.name.partition("_")[0])):
            yield f"{level}/{path.stem}", path.read_text(encoding="utf-8")


def judged(text: str, device: str) -> dict[str, Any]:
    """Return what the judge says of a copy of a problem's model."""
    with tempfile.TemporaryDirectory() as name:
        task, candidate = Path(name, "problem.py"), Path(name, "candidate.py")
        task.write_text(text)
        candidate.write_text(re.sub(r"\bModel\b", "ModelNew", text))
        command = [sys.executable, "-m", "opsmith", "judge", task, candidate, "--device", device, "--no-time", "--json"]
        begun = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            return {"verdict": "no verdict", "reasons": [f"none in {PATIENCE_S} s"]}
        seconds = round(time.perf_counter() - begun, 1)
    if not done.stdout.startswith("{"):
        return {"verdict": "not read", "reasons": done.stderr.strip().splitlines()[-1:], "seconds": seconds}
    found = json.loads(done.stdout)
    of_task, of_copy = found["task_charges"], [*found["as_posed"]["charges"], *found["as_operator"]["charges"]]
    verdict = "task refused" if of_task else "copy refused" if of_copy else "accepted"
    reasons = [f"{one['refusal']}: {one['message']}" for one in [*of_task, *of_copy]]
    return {"verdict": verdict, "reasons": reasons, "as_operator": found["as_operator"]["state"], "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="KernelBench's folder of levels")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    parser.add_argument("--log", type=Path, default=Path("kernelbench.jsonl"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = options.log.read_text(encoding="utf-8").splitlines() if options.log.is_file() else []
    known = {row["name"]: row for row in map(json.loads, lines)}
    for name, text in problems(options.folder, options.levels):
        if name in known:
            continue
        sizes = [(1, 0)] if options.device == "cuda" else SMALLER
        texts = ((pair, divided(text, *pair)) for pair in sizes)
        pair, small = next((one for one in texts if options.device == "cuda" or is_small(one[1])), ((0, 0), ""))
        found = (
            judged(small, options.device) if small else {"verdict": "not tried", "reasons": ["no small sizes found"]}
        )
        known[name] = {"name": name, "divisor": pair[0], **found}
        with options.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(known[name]) + "\n")
        print(name, known[name]["verdict"], *known[name]["reasons"], flush=True)
    if options.output is not None:
        is_gpu = options.device == "cuda"
        machine = torch.cuda.get_device_name() if is_gpu else processor_name()
        content = {"device": machine, "torch": torch.__version__, "date": date.today().isoformat()}
        options.output.write_text(json.dumps({**content, "results": list(known.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
