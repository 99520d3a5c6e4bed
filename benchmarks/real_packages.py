"""Builds extension packages from PyPI unchanged with `opsmith run -- pip install`, and runs their own tests.

    python benchmarks/real_packages.py [--only NAME] [--output benchmarks/results/real_packages.json]

Each package is downloaded as published (an sdist whose setup.py imports torch.utils.cpp_extension) and installed twice into
separate folders by the same pip command, with PyTorch's tool and under `opsmith run` with an empty store. The tests are
those of the sdist, run in the same way on both. For packages without tests in their sdist, the two builds must agree on one
result in every bit. The build time is that of the whole pip command, without a pause between the two; the order of the
tools alternates between packages.

It needs PyPI, torch, setuptools, wheel and a C++ compiler. Without a network it says so and exits with 3.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import torch

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
NO_NETWORK = 3


@dataclass(frozen=True)
class Package:
    """One sdist. `tests` are pytest's arguments in its folder; `result` is a program that prints what both must give."""

    name: str
    version: str
    tests: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    result: str | None = None


PACKAGES = (
    Package("torch_discounted_cumsum", "1.1.0", tests=("tests/test.py",), needs=("tqdm",)),
    Package("torch_householder", "1.0.1", tests=("tests/test.py",), needs=("tqdm",)),
    Package("torchlpc", "0.7.2", tests=("tests",), needs=("numba", "llvmlite")),
    Package(
        "torch_scatter",
        "2.1.2",
        result="""
import torch, torch_scatter
torch.manual_seed(0)
x, index = torch.randn(50, 8), torch.randint(0, 7, (50,)).sort().values
for name in ("sum", "mean", "min", "max"):
    print(torch_scatter.scatter(x, index, 0, reduce=name).tolist())
    print(torch_scatter.segment_coo(x, index, reduce=name).tolist())
""",
    ),
    Package(
        "torch_spline_conv",
        "1.2.2",
        result="""
import torch, torch_spline_conv
torch.manual_seed(0)
x, edges = torch.randn(4, 2), torch.tensor([[0, 0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0, 0]])
pseudo = torch.rand(7, 2)
print(torch_spline_conv.spline_conv(x, edges, pseudo, torch.randn(25, 2, 4), torch.tensor([5, 5]),
      torch.tensor([1, 1], dtype=torch.uint8), 1).tolist())
""",
    ),
)


def environment(folder: Path, *paths: Path) -> dict[str, str]:
    # Byte code is cached as a user's Python does it, or opsmith's own modules would be compiled in every process.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"OPSMITH_CACHE_DIR": str(folder / "store"), "OPSMITH_BRIDGE": "off", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**kept, **own, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def run(argv: Sequence[str | Path], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=1800
    )


def download(package: Package, folder: Path) -> Path:
    """Fetch and unpack an sdist. pip would ask setup.py for its metadata, which needs torch: it is there already."""
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    argv += ["-d", str(folder), f"{package.name}=={package.version}"]
    done = run(argv, folder, environment(folder))
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode != 0 or not archives:
        print(f"{package.name} cannot be downloaded:\n{done.stderr[-2000:]}", file=sys.stderr)
        sys.exit(NO_NETWORK)
    return archives[0]


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (project,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return project


def install(tool: str, archive: Path, folder: Path, *paths: Path) -> tuple[float, Path]:
    """Install an sdist into a folder and return the seconds it took and the folder."""
    target = folder / tool
    pip = ["-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    argv = [sys.executable, *pip, "--target", str(target), str(archive)]
    report = folder / f"{tool}.report"
    env = environment(folder, *paths)
    if tool == "opsmith":
        argv = [sys.executable, "-m", "opsmith", "run", "--", *argv]
        env["OPSMITH_RUN_REPORT"] = str(report)
    started = time.perf_counter()
    done = run(argv, folder, env)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{tool} cannot build {archive.name}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
    if (tool == "opsmith") != report.exists():
        raise RuntimeError(f"{archive.name}: the build by {tool} went through the other tool")
    return seconds, target


def run_tests(package: Package, archive: Path, folder: Path, target: Path, extra: Path) -> dict[str, int]:
    """Run the sdist's tests on an installation and count the outcomes; the package in the sources is out of the way."""
    project = unpack(archive, folder / f"tests-{target.name}")
    for entry in project.iterdir():
        if entry.name not in {Path(test).parts[0] for test in package.tests}:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    report = folder / f"{target.name}.xml"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    # Threads of OpenMP that wait by spinning make small tests take minutes on a machine that has other work too.
    env = {**environment(folder, target, extra), "OMP_NUM_THREADS": "1"}
    done = run([*argv, *package.tests], project, env)
    if not report.exists():
        raise RuntimeError(f"{package.name}: no tests were run on {target.name}'s build:\n{done.stdout}\n{done.stderr}")
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        counts["failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"] += 1
    return counts


def result_of(package: Package, folder: Path, target: Path) -> str:
    done = run([sys.executable, "-c", package.result or ""], folder, environment(folder, target))
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"{package.name} by {target.name} does not work:\n{done.stderr}")
    return done.stdout


def measure(package: Package, folder: Path, *, opsmith_first: bool) -> dict[str, object]:
    (folder / "sdist").mkdir(parents=True)
    archive = download(package, folder / "sdist")
    extra = folder / "extra"
    if package.needs:
        argv = [sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary", ":all:", "--target", str(extra)]
        if run([*argv, *package.needs], folder, environment(folder)).returncode != 0:
            sys.exit(NO_NETWORK)
    seconds, targets = {}, {}
    for tool in ("opsmith", "torch") if opsmith_first else ("torch", "opsmith"):
        seconds[tool], targets[tool] = install(tool, archive, folder, SOURCE)
    entry: dict[str, object] = {"package": f"{package.name} {package.version}", "build_s": seconds}
    made = {tool: {str(path.relative_to(target)) for path in target.rglob("*.so")} for tool, target in targets.items()}
    entry["libraries"] = sorted(made["torch"])
    entry["only_opsmith"] = sorted(made["opsmith"] - made["torch"])
    if missing := made["torch"] - made["opsmith"]:
        raise RuntimeError(f"{package.name}: opsmith did not make {', '.join(sorted(missing))}")
    if package.tests:
        entry["tests"] = {tool: run_tests(package, archive, folder, targets[tool], extra) for tool in seconds}
    if package.result:
        results = {tool: result_of(package, folder, targets[tool]) for tool in seconds}
        entry["same_result"] = results["torch"] == results["opsmith"]
    return entry


def is_well(entry: dict[str, object]) -> bool:
    """Whether a package's tests pass on opsmith's build wherever they pass on PyTorch's, and results are the same."""
    tests = entry.get("tests")
    if isinstance(tests, dict):
        ours, theirs = tests["opsmith"], tests["torch"]
        return bool(ours["passed"] > 0 and ours == theirs)
    return entry.get("same_result") is True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=[package.name for package in PACKAGES])
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    entries = []
    for index, package in enumerate(PACKAGES):
        if chosen.only and package.name not in chosen.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            entries.append(measure(package, Path(folder), opsmith_first=bool(index % 2)))
        print(json.dumps(entries[-1]), flush=True)
    about = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
    }
    if chosen.output:
        chosen.output.write_text(json.dumps({"machine": about, "packages": entries}, indent=2) + "\n")
    return 0 if all(map(is_well, entries)) else 1


if __name__ == "__main__":
    sys.exit(main())
