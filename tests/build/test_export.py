"""`opsmith build --output`: whatever builds it, a library put beside its module is the one that is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsmith.build.builders import BUILDERS

pytestmark = pytest.mark.compile

_CALL = "import torch, user_scale; print(user_scale.scale(torch.ones(2), 3.0).tolist())"


def python(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: this one would keep the first project's module for all."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), *filter(None, sys.path)]), **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "builder",
    [pytest.param(name, marks=pytest.mark.slow("builds and loads in four processes")) for name in BUILDERS],
)
def test_a_library_beside_its_module_is_loaded_until_a_source_changes(
    project: Path, tmp_path: Path, builder: str
) -> None:
    package = project / "user_scale"
    options = ["--with", builder, "--device", "cpu", "--output", str(package)]
    built = python(project, "-m", "opsmith", "build", "user_scale", *options)
    assert built.returncode == 0, built.stderr
    # Nothing can be built anew with these.
    alone = {"OPSMITH_CACHE_DIR": str(tmp_path / "empty"), "CXX": str(tmp_path / "no compiler")}
    done = python(project, "-c", _CALL, **alone)
    assert done.stdout == "[3.0, 3.0]\n", done.stderr
    header = package / "kernels" / "scale.h"
    header.write_text(header.read_text() + "\n")
    done = python(project, "-c", _CALL, **alone)
    assert "kernels/scale.h has changed since it was built" in done.stderr


@pytest.mark.slow("builds and loads in four processes")
def test_a_library_beside_its_module_is_not_loaded_for_another_kernel_or_other_flags(
    project: Path, empty_store: Path
) -> None:
    package = project / "user_scale"
    text = (package / "__init__.py").read_text()
    kernel = (package / "kernels" / "scale.cpp").read_text().replace("factor));", "factor) + PLUS);")
    (package / "kernels" / "scale.cpp").write_text(kernel)
    (package / "kernels" / "other.cpp").write_text(kernel.replace("PLUS", "2 * PLUS"))

    def define(file: str, plus: int) -> None:
        kernel = f'cpu=opsmith.view("kernels/{file}", flags=["-DPLUS={plus}"])'
        (package / "__init__.py").write_text(text.replace('cpu="kernels/scale.cpp"', kernel))

    define("scale.cpp", 1)
    options = ["--device", "cpu", "--output", str(package)]
    built = python(project, "-m", "opsmith", "build", "user_scale", *options)
    assert built.returncode == 0, built.stderr
    assert python(project, "-c", _CALL).stdout == "[4.0, 4.0]\n"
    define("other.cpp", 1)
    done = python(project, "-c", _CALL)
    assert done.stdout == "[5.0, 5.0]\n", done.stderr
    assert "_ops.so is not used: it was built without other.cpp" in done.stderr
    define("scale.cpp", 5)
    done = python(project, "-c", _CALL)
    assert done.stdout == "[8.0, 8.0]\n", done.stderr
    assert "_ops.so is not used: scale has other flags" in done.stderr
