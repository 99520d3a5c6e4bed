"""What a process below `opsmith run` gets, and what it does not."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from opsmith.run.environment import HOOK_FOLDER, redirected
from opsmith.run.hook.opsmith_run_hook import SERVED

_IDENTITY = """
import sys
assert "torch" not in sys.modules and "opsmith" not in sys.modules
import torch
from torch.utils import cpp_extension
import torch.utils.cpp_extension as again
import opsmith.cpp_extension as ours
assert cpp_extension is again is ours is sys.modules["torch.utils.cpp_extension"] is torch.utils.cpp_extension
cpp_extension.SOMETHING = "set"
from opsmith.cpp_extension import SOMETHING
print(SOMETHING, ours.__spec__.name)
"""


def test_the_module_is_opsmiths_own_so_assignments_act(below):
    assert below("python", "-c", _IDENTITY).stdout == "set opsmith.cpp_extension\n"


def test_a_process_that_never_asks_imports_nothing(below):
    code = "import sys; print(sorted({name.partition('.')[0] for name in sys.modules} & {'opsmith', 'torch', 'rich'}))"
    assert below("python", "-c", code).stdout == "[]\n"


@pytest.mark.slow("compiles with PyTorch's own tool")
def test_without_opsmith_run_pytorchs_own_is_back(below):
    code = "import torch.utils.cpp_extension as it; print(it.__name__)"
    below("python", "-c", code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "torch.utils.cpp_extension\n"


def test_children_of_children_are_redirected(below):
    inner = "import torch.utils.cpp_extension as it; print(it.__name__)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    assert below("python", "-c", code).stdout == "opsmith.cpp_extension\n"


@pytest.mark.slow("starts several interpreters with torch")
def test_a_path_made_from_sys_path_keeps_the_hook(below):
    # torch.compile's pool of compilers starts its processes so.
    inner = "import torch.utils.cpp_extension as it; print(it.__name__)"
    code = (
        "import os, subprocess, sys; env = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}; "
        f"subprocess.run([sys.executable, '-c', {inner!r}], env=env, check=True)"
    )
    assert below("python", "-c", code).stdout == "opsmith.cpp_extension\n"


def test_a_hidden_sitecustomize_is_run_and_is_the_module_of_that_name(below, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.hidden = 'ran'\nMARK = 1\n")
    code = "import sys, sitecustomize; print(sys.hidden, sitecustomize.MARK)"
    path = os.pathsep.join([str(tmp_path), *(folder for folder in sys.path if folder)])
    assert below("python", "-c", code, PYTHONPATH=path).stdout == "ran 1\n"


@pytest.mark.slow("starts several interpreters with torch")
def test_an_error_of_a_hidden_sitecustomize_is_told_as_ever_and_the_hook_stays(below, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import there_is_no_such_module\n")
    path = os.pathsep.join([str(tmp_path), *(folder for folder in sys.path if folder)])
    done = below("python", "-c", "import torch.utils.cpp_extension as it; print(it.__name__)", PYTHONPATH=path)
    assert "there_is_no_such_module" in done.stderr
    assert done.stdout == "opsmith.cpp_extension\n"


@pytest.mark.slow("six processes, two of which build")
def test_report_names_the_process_on_stderr_or_in_a_file(below, tmp_path):
    code = "import torch.utils.cpp_extension"
    assert re.search(
        r"opsmith run: torch\.utils\.cpp_extension is .*cpp_extension.* in process \d+: ",
        below("python", "-c", code, options=("-v",)).stderr,
    )
    assert below("python", "-c", code).stderr == ""
    place = tmp_path / "report.txt"
    below(
        "python",
        "-c",
        f"import os; os.system({sys.executable + ' -c ' + repr(code)!r}); {code}",
        OPSMITH_RUN_REPORT=str(place),
    )
    assert len(place.read_text().splitlines()) == 2


def test_an_interpreter_that_cannot_run_opsmith_is_told_what_to_do(below, tmp_path):
    broken = tmp_path / "broken" / "opsmith"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('as on Python 3.8')")
    path = os.pathsep.join([str(broken.parent), *(folder for folder in sys.path if folder)])
    script = "import os, subprocess, sys\nenv = {**os.environ}\n"
    script += f"env['PYTHONPATH'] = env['PYTHONPATH'].split(os.pathsep)[0] + os.pathsep + {path!r}\n"
    script += "sys.exit(subprocess.run([sys.executable, '-c', 'import torch.utils.cpp_extension'], env=env).returncode)"
    done = below("python", "-c", script, fails=True)
    assert "as on Python 3.8" in done.stderr
    assert "run the command without `opsmith run`" in done.stderr


def test_the_environment_is_made_once_however_often_it_is_asked_for():
    once = redirected({"PYTHONPATH": "/mine"})
    assert once["PYTHONPATH"] == f"{HOOK_FOLDER}{os.pathsep}/mine"
    assert redirected(once) == once


def test_everything_that_opsmith_requires_is_lent():
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    listed = re.search(r"^dependencies = \[(.*?)^\]", project.read_text(), re.DOTALL | re.MULTILINE)
    waiting = [Requirement(text).name for text in re.findall(r'^  "(.*?)",$', listed[1], re.MULTILINE)]
    assert "filelock" in waiting
    seen: set[str] = set()
    modules = importlib.metadata.packages_distributions()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name == "torch" or name in seen:
            continue
        seen.add(name)
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # another Python version's
        waiting += [item.name for item in map(Requirement, requires) if item.marker is None or item.marker.evaluate()]
    named = {re.sub(r"[-_.]+", "-", item).lower(): top for top, owners in modules.items() for item in owners}
    for name in seen & named.keys():
        assert named[name] in SERVED, f"{name} is required but not lent: add {named[name]} to SERVED"


@pytest.mark.slow("compiles pybind11")
@pytest.mark.compile
def test_an_unchanged_script_builds_through_opsmith(below, tmp_path, session_store):
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.utils.cpp_extension import load_inline\n"
        "source = '#include <pybind11/pybind11.h>\\nint twice(int x) { return 2 * x; }\\n'\n"
        "source += 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"twice\", twice); }'\n"
        "options = {'extra_cflags': ['-O0'], 'no_implicit_headers': True}  # torch/extension.h takes ten seconds\n"
        "module = load_inline('unchanged', cpp_sources=source, **options)\n"
        "print(module.twice(21), module.__file__)\n"
    )
    result, file = below("python", str(script)).stdout.split()
    assert result == "42"
    assert Path(file).is_relative_to(session_store)


_COMPILED = """
import sys, torch

@torch.compile
def f(x):
    return torch.sin(x) * 2 + x

x = torch.randn(100)
assert torch.allclose(f(x), torch.sin(x) * 2 + x)
print(sys.modules["torch.utils.cpp_extension"].__name__)
"""


@pytest.mark.nightly("compiles with Inductor")
@pytest.mark.compile
def test_torch_compile_takes_its_folders_from_the_drop_in(below, tmp_path):
    (tmp_path / "compiled.py").write_text(_COMPILED)
    out = below("python", "compiled.py", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor")).stdout
    assert out == "opsmith.cpp_extension\n"
