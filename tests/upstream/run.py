"""Do PyTorch's own tests of torch.utils.cpp_extension pass against opsmith's drop-in?

    python tests/upstream/run.py PYTORCH

PYTORCH is a checkout of PyTorch, or any folder with its test/test_cpp_extensions_*.py and test/cpp_extensions. The tests
are copied, never changed, and run below `opsmith run`. They fit the torch they were released with; `--torch` runs them
against PyTorch's own module, and what fails there too is not the drop-in's. A line of EXPECTED says of a test that it is to
differ, and why; the exit status is 0 where nothing else failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from outcomes import find_opsmith, print_outcomes

# Tests that fail against the drop-in on purpose.
EXPECTED = {
    "test_gen_extension_h_pch": "use_pch is to write a precompiled header into torch's folder; opsmith's never lies there",
}

# What each test file needs built beforehand: the folder of a setup.py, below test/, and the command for it.
SETUPS = {
    "test_cpp_extensions_aot.py": [
        ("cpp_extensions", ["build_ext", "--inplace"]),
        ("cpp_extensions/no_python_abi_suffix_test", ["build"]),
    ],
}
FILES = (
    "test_cpp_extensions_jit.py",
    "test_cpp_extensions_aot.py",
    "test_cpp_extensions_stream_and_event.py",
    "test_cpp_extensions_mtia_backend.py",
    "test_cpp_extensions_open_device_registration.py",
)


def main() -> int:
    """Run the tests and print what became of each file; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="PyTorch's sources, or a folder with their test/")
    parser.add_argument("--torch", action="store_true", help="run against PyTorch's own module instead")
    parser.add_argument("--file", action="append", choices=FILES, help="only this file; may be repeated")
    parser.add_argument("-k", dest="words", help="only tests whose names have this, as pytest's -k")
    arguments = parser.parse_args()
    if not (arguments.checkout / "test" / "cpp_extensions").is_dir():
        parser.error(f"{arguments.checkout} has no test/cpp_extensions")
    bad = 0
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        tests = Path(folder) / "test"
        copy_tests(arguments.checkout / "test", tests)
        for file in arguments.file or FILES:
            if (tests / file).is_file():
                bad += run_file(tests, file, arguments.words, against_torch=arguments.torch)
            else:
                print(f"{file}: this checkout does not have it")
    return 1 if bad else 0


def copy_tests(source: Path, place: Path) -> None:
    """Copy the tests of C++ extensions: what they build must not lie in a checkout."""
    place.mkdir()
    for path in source.glob("test_cpp_extensions_*.py"):
        shutil.copy2(path, place)
    shutil.copytree(source / "cpp_extensions", place / "cpp_extensions")


def run_file(tests: Path, file: str, words: str | None, *, against_torch: bool) -> int:
    """Build what a file needs, run it, and return how many tests failed that should not have."""
    launcher = [] if against_torch else [sys.executable, "-m", "opsmith", "run", "--"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*find_opsmith(), str(tests / "cpp_extensions")])}
    for folder, command in SETUPS.get(file, ()):
        argv = [*launcher, sys.executable, "setup.py", *command]
        done = subprocess.run(argv, cwd=tests / folder, env=env, check=False)
        if done.returncode != 0:
            print(f"{file}: setup.py of {folder} failed")
            return 1
    report = tests / f"{file}.xml"
    argv = [*launcher, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", file]
    subprocess.run([*argv, *(["-k", words] if words else [])], cwd=tests, env=env, check=False)
    if not report.is_file():
        print(f"{file}: the process ended before its tests did")
        return 1
    return print_outcomes(file, report, EXPECTED)


if __name__ == "__main__":
    sys.exit(main())
