"""Compares the machine code of operators before and after a change of their sources that must not change it.

    python benchmarks/compare_code.py keep FOLDER opsmith.ops.nms ...     # before the change
    python benchmarks/compare_code.py compare FOLDER opsmith.ops.nms ...  # after it; exits with 1 where code differs

Compiles the kernels with the build's own commands, for sm_90a unless --arch names another, and needs no GPU. For each
function it keeps the disassembly (`cuobjdump -sass` with the encodings, which hold the scheduling; `objdump -d` with
--device cpu) and a GPU kernel's registers, stack and shared memory. Functions are matched by their code, so renamed
symbols, namespaces and files make no difference. cuobjdump and nvdisasm come with the CUDA toolkit or from
`pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`; they are looked for on PATH.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from opsmith.build.discover import discover
from opsmith.build.ninja import write_files
from opsmith.build.plan import Plan, Step, Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.spec.definition import Device
from opsmith.toolchain import find_toolchain, parse_cuda_archs

# What names a place or a symbol in a disassembly, and what stands for it.
Names = tuple[tuple[re.Pattern[str], str], ...]
_SASS_NAMES: Names = ((re.compile(r"\$?_Z\w+"), "SYMBOL"), (re.compile(r"\.L_x_\d+"), "LABEL"))
_CPU_NAMES: Names = (
    (re.compile(r"\s*#.*$", re.M), ""),
    (re.compile(r"\b[0-9a-f]+ (<[^>]*>)"), r"\1"),
    (re.compile(r"<[^>+]*(\+0x[0-9a-f]+)?>"), r"<SYMBOL\1>"),
)

_STRINGS = (".rodata.str1.1", ".rodata.str1.8")

Code = dict[str, str]  # a function's mangled name -> its resources and its instructions


def plans(module: str, device: Device, arch: str) -> Iterator[Plan]:
    """Yield the plans of a module's kernels for one device."""
    toolchain = find_toolchain(cuda=device == "cuda", rocm=False)
    target = Target(cuda_archs=parse_cuda_archs(arch) if device == "cuda" else ())
    for group in discover(module):
        yield plan_extension(assemble(group.module, group.definitions, (device,)), toolchain, target)


def gpu_code(step: Step, folder: Path) -> Code:
    """Compile one kernel file for the GPU alone and return its kernels."""
    cubin = folder / f"{step.output}.cubin"
    argv = [*step.argv[: step.argv.index("-MD")], "-cubin", step.inputs[0], "-o", str(cubin)]
    run(argv, folder)
    resources = dict(re.findall(r"^ Function (\S+):\n\s*(.*)$", run(["cuobjdump", "-res-usage", str(cubin)]), re.M))
    code = {}
    for part in run(["cuobjdump", "-sass", str(cubin)]).split("\t\tFunction : ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line.strip() for line in without_names(text, _SASS_NAMES).splitlines()]
        lines = [line for line in lines if line.startswith("/*")]
        code[f"{step.description}: {name}"] = "\n".join([resources[name], *lines])
    return code


def cpu_code(step: Step, folder: Path) -> Code:
    """Compile one kernel file for the CPU and return its functions."""
    run(step.argv, folder)
    code = {}
    listing = run(["objdump", "-d", "--no-show-raw-insn", "--no-addresses", step.output], folder)
    for name, text in re.findall(r"^<(.+)>:\n((?:.+\n)*)", listing, re.M):
        code[f"{step.description}: {name}"] = without_names(text, _CPU_NAMES)
    # Instructions name strings by address alone, so the names of operators and the texts of errors are compared as such.
    sections = [word for section in _STRINGS for word in ("-p", section)]
    strings = re.findall(r"^  \[ *[0-9a-f]+\]  (.*)$", run(["readelf", *sections, step.output], folder), re.M)
    code[f"{step.description}: strings"] = "\n".join(sorted(strings))
    return code


def without_names(text: str, names: Names) -> str:
    """Return a disassembly with the same word for each symbol, label and address."""
    for pattern, replacement in names:
        text = pattern.sub(replacement, text)
    return text


def run(argv: list[str] | tuple[str, ...], folder: Path | None = None) -> str:
    """Run a command and return what it prints; end the program where it fails."""
    done = subprocess.run(argv, check=False, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
    return done.stdout


def code_of(module: str, device: Device, arch: str, jobs: int) -> Code:
    """Compile a module's kernels and return their code."""
    read = gpu_code if device == "cuda" else cpu_code
    code: Code = {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(jobs) as pool:
        for plan in plans(module, device, arch):
            folder = Path(name)
            write_files(plan, folder)
            # A GPU's library has C++ files too, which start its kernels; and every library has its generated binding.
            is_gpu = [any("-gencode" in word for word in step.argv) for step in plan.steps[:-1]]
            steps = [step for step, gpu in zip(plan.steps, is_gpu, strict=False) if gpu == (device == "cuda")]
            steps = [step for step in steps if step.output != "binding.cpp.o"]
            for found in pool.map(read, steps, [folder] * len(steps)):
                code.update(found)
    return code


def differences(before: Code, after: Code) -> list[str]:
    """Return what tells two versions apart: nothing where each function of one has its equal in the other."""
    removed = Counter(before.values()) - Counter(after.values())
    added = Counter(after.values()) - Counter(before.values())
    gone = {plain_name(name): text for name, text in before.items() if text in removed}
    new = {plain_name(name): text for name, text in after.items() if text in added}
    lines = []
    for name in sorted({*gone, *new}):
        old, made = gone.get(name, "").splitlines(), new.get(name, "").splitlines()
        lines.append(f"{'  ' if old and made else '- ' if old else '+ '}{name}: {len(old)} lines, then {len(made)}")
        if old and made:
            lines += [f"    {line}" for line in difflib.unified_diff(old, made, n=0, lineterm="")][2:10]
    return lines


def plain_name(name: str) -> str:
    """Return a function's name without its namespaces, which a change may rename."""
    plain = run(["c++filt", name.rpartition(" ")[2]]).strip()
    return re.sub(r"(\(anonymous namespace\)|_GLOBAL__N_\w+|\b\w+)::", "", plain)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--arch", default="9.0a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    differ = False
    for module in chosen.modules:
        kept = chosen.folder / f"{module}-{chosen.device}{chosen.arch if chosen.device == 'cuda' else ''}.json"
        code = code_of(module, chosen.device, chosen.arch, chosen.jobs)
        if chosen.verb == "keep":
            kept.write_text(json.dumps(code, indent=0), encoding="utf-8")
            print(f"{module}: kept {len(code)} functions", flush=True)
            continue
        found = differences(json.loads(kept.read_text(encoding="utf-8")), code)
        print(
            "\n".join([f"{module}: {len(code)} functions, {'different' if found else 'identical'}", *found]), flush=True
        )
        differ |= bool(found)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
