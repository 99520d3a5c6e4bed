"""Do torchvision's own tests of its operators pass with opsmith's in their place?

    python tests/upstream/vision.py VISION [--theirs] [arguments for pytest]

VISION is a checkout of torchvision, or any folder with its test/; torchvision itself must be installed, because what its
tests ask of other functions stays its own. The tests are copied, never changed. Wherever torchvision has one of its
operators by name, in torchvision.ops and in its models, they find opsmith's; `--theirs` leaves torchvision's. A line of
EXPECTED says of a test that it is to differ, and why; the exit status is 0 where nothing else failed.
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

# Tests that fail on purpose. Without gamma the loss is PyTorch's cross entropy but for the last digits, of which PyTorch's
# has fewer: it is a difference, and so is its gradient, in float16 of nearly equal numbers. Ours is within a unit in the
# last place of float64's.
EXPECTED = {
    **dict.fromkeys(
        (
            "test_correct_ratio[0-dtype0-cpu-0--1.0]",
            "test_correct_ratio[0-dtype0-cpu-0-0.0]",
            "test_correct_ratio[0-dtype0-cpu-0-1.0]",
            "test_correct_ratio[1-dtype0-cpu-0--1.0]",
            "test_correct_ratio[1-dtype0-cpu-0-0.0]",
            "test_correct_ratio[1-dtype0-cpu-0-1.0]",
            "test_correct_ratio[0-dtype0-cuda-0--1.0]",
            "test_correct_ratio[0-dtype0-cuda-0-0.0]",
            "test_correct_ratio[0-dtype0-cuda-0-1.0]",
            "test_correct_ratio[0-dtype1-cuda-0--1.0]",
            "test_correct_ratio[0-dtype1-cuda-0-0.0]",
            "test_correct_ratio[0-dtype1-cuda-0-0.58]",
            "test_correct_ratio[0-dtype1-cuda-0-1.0]",
            "test_correct_ratio[1-dtype0-cuda-0--1.0]",
            "test_correct_ratio[1-dtype0-cuda-0-0.0]",
            "test_correct_ratio[1-dtype0-cuda-0-1.0]",
            "test_correct_ratio[1-dtype1-cuda-0--1.0]",
            "test_correct_ratio[1-dtype1-cuda-0-0.0]",
            "test_correct_ratio[1-dtype1-cuda-0-0.58]",
            "test_correct_ratio[1-dtype1-cuda-0-1.0]",
        ),
        "asks that the loss never exceed PyTorch's cross entropy, which even the exact one does",
    ),
    **dict.fromkeys(
        ("test_equal_ce_loss[2-dtype1-cuda-sum]", "test_equal_ce_loss[3-dtype1-cuda-sum]"),
        "compares with PyTorch's float16 gradient to more digits than that has",
    ),
}

CLASSES = ("TestRoiPool", "TestRoIAlign", "TestMultiScaleRoIAlign", "TestNMS", "TestDeformConv", "TestFocalLoss")
FILES = ("test_ops.py", "common_utils.py", "conftest.py", "optests_failures_dict.json")


def main() -> int:
    """Run the tests, print what became of them, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="torchvision's sources, or a folder with their test/")
    parser.add_argument("--theirs", action="store_true", help="run with torchvision's own operators instead")
    arguments, for_pytest = parser.parse_known_args()
    if not (arguments.checkout / "test" / "test_ops.py").is_file():
        parser.error(f"{arguments.checkout} has no test/test_ops.py")
    here = Path(__file__).resolve().parent
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *find_opsmith()])}
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        for name in FILES:
            shutil.copy2(arguments.checkout / "test" / name, folder)
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"--junitxml={report}", *for_pytest]
        plugin = [] if arguments.theirs else ["-p", "in_place_of_torchvision"]
        argv = [sys.executable, "-m", "pytest", *options, *plugin, "-k", " or ".join(CLASSES), "test_ops.py"]
        subprocess.run(argv, cwd=folder, env=env, check=False)
        surprises = print_outcomes("test_ops.py", report, EXPECTED) if report.is_file() else 1
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
