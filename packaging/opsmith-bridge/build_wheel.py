"""Makes the wheel of opsmith-bridge: compiles the bridge for each release of torch, and packs them with a list.

    python packaging/opsmith-bridge/build_wheel.py                              # for all of torches.txt
    python packaging/opsmith-bridge/build_wheel.py --torch 2.13.0 --index-url pip

Of each torch only headers and the libraries to link with are unpacked, and all of it is removed before the next. What was
compiled stays in the store, so a second run only downloads.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from opsmith import __version__
from opsmith.package.audit.api import audit
from opsmith.package.prove.environment import CPU_INDEX
from opsmith.package.wheel.finish import finish_wheel
from opsmith.runtime.bridge_build import sources_digest

HERE = Path(__file__).resolve().parent
LIBRARIES = {"libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so"}

# Runs in a process of its own, whose torch is the unpacked one.
COMPILE = """
import json
from opsmith.runtime.bridge_build import compile_bridge
from opsmith.store import Store
from opsmith.store.locate import default_root
from opsmith.toolchain import find_torch
torch = find_torch()
library = compile_bridge(Store(default_root())).library
print(json.dumps({"root": str(torch.root), "commit": torch.git_version, "library": str(library)}))
"""


def main() -> None:
    """Make the wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="append", metavar="RELEASE", help="such as 2.13.0; may be repeated")
    parser.add_argument("--index-url", default=CPU_INDEX, help="where torch comes from; 'pip' means pip's own indexes")
    parser.add_argument("--output", type=Path, default=Path("dist"))
    options = parser.parse_args()
    releases = options.torch or [line for line in (HERE / "torches.txt").read_text().split("\n") if line[:1].isdigit()]
    with tempfile.TemporaryDirectory(prefix="opsmith-bridge-") as folder:
        project = Path(shutil.copytree(HERE, Path(folder) / "project"))
        package = project / "opsmith_bridges"
        bridges = []
        for release in releases:
            started = time.perf_counter()
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                bridges.append(add_bridge(release, options.index_url, Path(scratch), package))
            print(f"torch {release}: {time.perf_counter() - started:.0f} s", flush=True)
        listed = {
            "opsmith": __version__,
            "sources": sources_digest(),
            "machine": os.uname().machine,
            "bridges": bridges,
        }
        (package / "bridges.json").write_text(json.dumps(listed, indent=2) + "\n")
        wheel = finish_wheel(pack(project, Path(folder) / "dist"))
        refuse_faulty(wheel)
        options.output.mkdir(parents=True, exist_ok=True)
        print(shutil.copy(wheel, options.output))


def add_bridge(release: str, index: str, scratch: Path, package: Path) -> dict[str, str]:
    """Put the bridge for a release of torch into the package, and return its entry for the list."""
    unpack(download(release, index, scratch / "wheels"), scratch / "torch")
    path = os.pathsep.join([str(scratch / "torch"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    made: dict[str, Any] = json.loads(done.stdout)
    assert Path(made["root"]).is_relative_to(scratch), f"the bridge was built for the torch in {made['root']}"
    library = Path(made["library"])
    target = package / release.replace(".", "_") / library.name
    target.parent.mkdir()
    subprocess.run(["strip", "--strip-unneeded", "-o", str(target), str(library)], check=True)
    return {"torch": release, "commit": made["commit"], "library": str(target.relative_to(package))}


def download(release: str, index: str, folder: Path) -> Path:
    """Return the wheel of a torch, alone."""
    where = [] if index == "pip" else ["--index-url", index]
    words = ["download", "--quiet", "--no-deps", *where, "--dest", str(folder), f"torch=={release}"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (wheel,) = folder.iterdir()
    return wheel


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack what a build needs of a torch, and remove the rest."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if (
                name in ("torch/__init__.py", "torch/version.py")
                or name.startswith("torch/include/")
                or (path.parent == PurePosixPath("torch/lib") and path.name in LIBRARIES)
            ):
                archive.extract(name, folder)
    wheel.unlink()


def pack(project: Path, output: Path) -> Path:
    """Return the wheel that setuptools makes of the project."""
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(output), str(project)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (wheel,) = output.iterdir()
    return wheel


def refuse_faulty(wheel: Path) -> None:
    """End the program where the audit finds a fault other than that each library is for one release of torch alone.

    opsmith compares release and commit before it loads one.
    """
    faults = [finding for finding in audit(wheel).faults if finding.name != "unstable-torch-symbols"]
    if faults:
        sys.exit("\n".join(f"{finding.title}: {finding.remedy}" for finding in faults))


if __name__ == "__main__":
    main()
