"""Runs a wheel of opsmith-ops on this machine's GPU, where nothing can be compiled: `python tools/try_gpu_wheel.py WHEEL`.

The wheel is installed into a folder with opsmith, from a wheel of it or this checkout's files, which must have the same
kernels. Its operators are checked there against their definitions on the GPU (`opsmith check`), without nvcc and g++ on the
path and with an empty store. Prints a line for each module and exits with 1 if one fails, or if a library came from
elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "src" / "opsmith"

# Which libraries the operators came from, where no compiler can be found.
_LOADED = """
import json, shutil, sys
import torch
from opsmith.build.discover import discover
from opsmith.build.prebuilt import library_name
from opsmith.runtime.operator import load_module

found = [name for name in ("nvcc", "g++", "c++", "cc", "clang++", "ninja") if shutil.which(name)]
assert not found, found
groups = [group for group in discover("opsmith.ops") if group.file.with_name(library_name(group.file)).is_file()]
for group in groups:
    load_module(group.module)
has_gpu = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "python": sys.version.split()[0],
    "gpu": torch.cuda.get_device_name() if has_gpu else "no GPU",
    "capability": "%d.%d" % torch.cuda.get_device_capability() if has_gpu else "",
    "libraries": sorted(torch.ops.loaded_libraries),
    "modules": [group.module for group in groups],
}))
"""

# The kernels that a convolution of many channels launches: those of Hopper's warpgroups are in code for 9.0a alone.
_KERNELS = """
import json
import torch
from opsmith.ops.deform_conv2d import deform_conv2d

x = torch.randn(8, 256, 64, 64, device="cuda", dtype=torch.bfloat16)
offset = torch.randn(8, 18, 64, 64, device="cuda", dtype=torch.bfloat16)
weight = torch.randn(256, 256, 3, 3, device="cuda", dtype=torch.bfloat16)
deform_conv2d(x, offset, weight, padding=1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
    deform_conv2d(x, offset, weight, padding=1)
    torch.cuda.synchronize()
print(json.dumps(sorted({event.name for event in profile.events()})))
"""


def main() -> int:
    """Install, check, and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--opsmith", type=Path, metavar="WHEEL", help="opsmith's own wheel (default: this checkout)")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit for one operator's check (default: 10)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where to check (default: cuda)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opsmith-wheel-") as folder:
        site, environment = _install(options, Path(folder))
        facts = json.loads(_run(environment, "-c", _LOADED))
        if options.device == "cuda" and not facts["capability"]:
            raise SystemExit(f"torch {facts['torch']} sees no GPU; --device cpu tries the wheel without one")
        print(" ".join((facts["gpu"], facts["capability"], "torch", facts["torch"], "Python", facts["python"])))
        elsewhere = [library for library in facts["libraries"] if not Path(library).is_relative_to(site)]
        in_wheel = {str(path) for path in site.rglob("*.so")}
        unused = sorted(in_wheel - set(facts["libraries"]))
        print(
            f"{len(in_wheel) - len(unused)} of {len(in_wheel)} libraries of the wheel loaded, {len(elsewhere)} others"
        )
        results = [_check(environment, module, options) for module in facts["modules"]]
        if options.device == "cuda" and "opsmith.ops.deform_conv2d.sized" in facts["modules"]:
            kernels = json.loads(_run(environment, "-c", _KERNELS))
            is_wide = any("convolve_wide" in name for name in kernels)
            print(f"deform_conv2d by warpgroups (code for 9.0a): {'yes' if is_wide else f'no: {kernels}'}")
        return 0 if all(results) and not elsewhere and not unused else 1


def _install(options: argparse.Namespace, folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder that has the wheel and opsmith, and the environment to run in."""
    site = folder / "site"
    if options.opsmith is None:
        built = shutil.ignore_patterns("__pycache__", "*_ops.so", "*_ops.json")
        shutil.copytree(SOURCES, site / "opsmith", ignore=built)
    else:
        _unpack(options.opsmith, site)
    _unpack(options.wheel, site)
    kept = ("HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "PYTHONHOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {
        "PATH": "/nonexistent",
        "PYTHONPATH": str(site),
        "OPSMITH_CACHE_DIR": str(folder / "store"),
        "TMPDIR": str(folder),
    }
    return site, environment


def _unpack(wheel: Path, site: Path) -> None:
    """Put a wheel into the folder. `pip install --target` would replace the other's package, which both share."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def _run(environment: dict[str, str], *arguments: str) -> str:
    """Run Python and return the last line that it prints; what it says of a failure ends this program."""
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"{' '.join(arguments)[:80]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout.strip().splitlines()[-1]


def _check(environment: dict[str, str], module: str, options: argparse.Namespace) -> bool:
    """Check a module's operators and print the outcome."""
    properties = ("--property", "value", "--property", "gradient")
    where = ("--device", options.device, "--seconds", f"{options.seconds:g}")
    command = ("-m", "opsmith", "check", module, "--json", *where, *properties)
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    try:
        content: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(f"✗ {module}: {(done.stdout + done.stderr)[-2000:]}", flush=True)
        return False
    results = [result for report in content["operators"] for result in report["results"]]
    inputs = sum(result["inputs"] for result in results)
    wrong = [f"{result['property']}: {result['findings'][0]['message']}" for result in results if result["findings"]]
    if not inputs:
        wrong.append(f"nothing was compared within {options.seconds:g} s (--seconds)")
    is_good = done.returncode == 0 and content["ok"] and not wrong
    print(f"{'✓' if is_good else '✗'} {module}: {inputs:,} inputs", *wrong[:3], sep="\n    ", flush=True)
    return is_good


if __name__ == "__main__":
    raise SystemExit(main())
