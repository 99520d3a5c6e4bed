"""The package's public names: plain functions, and the import paths of packages that functions took the names of."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import opsmith
import opsmith.ops
from some import some


def run_python(program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["bench", "check", "judge", "mutate", "op", "profile"])
def test_a_verb_is_a_plain_function(name):
    assert type(getattr(opsmith, name)).__name__ == "function"


@pytest.mark.parametrize(
    ("verb", "package", "report"),
    some(
        [
            ("check", "checker", "Report"),
            ("bench", "benchmark", "BenchReport"),
            ("profile", "profiler", "ProfileReport"),
        ],
        1,
        "processes that import torch",
    ),
)
def test_the_former_package_gives_its_types_and_stays_a_function(verb, package, report):
    program = (
        f"import opsmith\nfunction = opsmith.{verb}\nfrom opsmith.{verb} import {report}\nimport opsmith.{verb}\n"
        f"import opsmith.{package} as package\nassert {report} is package.{report} is opsmith.{verb}.{report}\n"
        f"assert opsmith.{verb} is function\nassert all(hasattr(function, name) for name in package.__all__)\n"
        f"try:\n    opsmith.{verb}(None)\nexcept opsmith.errors.ArgumentError as error:\n    print(error)\n"
    )
    done = run_python(program, "-W", "always::DeprecationWarning")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"import these names from opsmith.{package}") == 1
    assert "<string>:3: DeprecationWarning" in done.stderr
    assert done.stdout


def test_importing_opsmith_imports_no_torch():
    done = run_python(
        "import sys, opsmith, opsmith.benchmark, opsmith.checker, opsmith.profiler\nprint('torch' in sys.modules)"
    )
    assert done.stdout.strip() == "False", done.stderr


def test_importing_an_operator_imports_no_compiler_of_torch():
    listed = [item.name for item in pkgutil.iter_modules(opsmith.ops.__path__, "opsmith.ops.")]
    assert "opsmith.ops.deform_conv2d" in listed
    done = run_python(
        f"import sys, {', '.join(listed)}\nprint({{'torch._dynamo', 'torch._inductor'}} & sys.modules.keys() or 'neither')"
    )
    assert done.stdout.strip() == "neither", done.stderr
