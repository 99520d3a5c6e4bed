"""Standalone wheels run where opsmith and a compiler are not, and beside opsmith and one another."""

from __future__ import annotations

import shutil
import site
from pathlib import Path
from typing import Any

import pytest

from opsmith.package.wheel.build import WheelRequest, build_wheel

pytestmark = [
    pytest.mark.compile,
    pytest.mark.nightly(
        "builds two projects, and runs them in processes of their own; opsmith prove runs one for each change"
    ),
]

EXAMPLE = Path(__file__).parents[3] / "examples" / "smooth"

ALONE = """
import pickle, sys
import torch
sys.modules["opsmith"] = None  # its import is an error
import smooth, rough

x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
decay = torch.full((3,), 0.9, dtype=torch.float64, requires_grad=True)
for module in (smooth, rough):
    lowpass, name = module.lowpass, module.__name__
    assert torch.allclose(lowpass(x, decay), lowpass.reference(x, decay))
    assert torch.autograd.gradcheck(lowpass, (x, decay))
    expected = torch.autograd.grad(lowpass(x, decay).sum(), (x, decay))
    compiled = torch.compile(lowpass, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x, decay).sum(), (x, decay)), expected)
    batched = torch.vmap(lowpass)(torch.stack([x, 2 * x]), torch.stack([decay, decay]))
    torch.testing.assert_close(batched[1], lowpass(2 * x, decay))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lowpass(x.float(), decay.float()).dtype == torch.float32
    with torch.device("meta"):
        assert torch.ops.__getattr__(name).lowpass(torch.empty(3, 7), torch.empty(3)).shape == (3, 7)
    assert pickle.loads(pickle.dumps(lowpass)) is lowpass
    try:
        lowpass(x[0], decay)
    except module.opsmith.errors.ShapeError as error:
        assert "x has 1 dimension, expected 2" in str(error)
    try:
        module.opsmith.check
    except AttributeError as error:
        print(error)
assert smooth.opsmith is not rough.opsmith
print(*torch.ops.loaded_libraries, sep="\\n")
"""

BESIDE = """
import torch, opsmith
import rough, smooth
from jaxtyping import Float
from torch import Tensor

@opsmith.op
def twice(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    return x + x

x, decay = torch.ones(3, 7, requires_grad=True), torch.full((3,), 0.9)
for lowpass in (smooth.lowpass, rough.lowpass):
    x.grad = None
    lowpass(twice(x), decay).sum().backward()
    assert x.grad.shape == (3, 7)
    graph = torch.compile(lambda x: twice(lowpass(x, decay)), fullgraph=True, backend="aot_eager")
    graph(x).sum().backward()
print(type(smooth.lowpass).__module__, type(rough.lowpass).__module__, type(twice).__module__)
"""


def built(folder: Path, name: str) -> Path:
    """Build the example as a standalone wheel of a name."""
    project = Path(
        shutil.copytree(EXAMPLE, folder / name, ignore=shutil.ignore_patterns("build", "*.egg-info", "_ops*"))
    )
    if name != "smooth":
        (project / "smooth").rename(project / name)
        for file in (project / "pyproject.toml", project / name / "__init__.py"):
            file.write_text(file.read_text().replace("smooth", name))
    made = build_wheel(WheelRequest(project, folder / "dist", standalone=True), lambda line: None)
    assert made.audit.is_sound, made.audit
    return made.path


def test_two_of_them_run_alone_and_beside_opsmith(user_python: Any, tmp_path: Path) -> None:
    wheels = [built(tmp_path, "smooth"), built(tmp_path, "rough")]
    user_python.pip("install", "-q", "--no-deps", *wheels, cwd=tmp_path)
    # Without opsmith among what the environment shares: folders that a .pth file names have none of their own.
    (shared,) = user_python.executable.parents[1].glob("lib/python*/site-packages/shared.pth")
    text = shared.read_text()
    shared.write_text("\n".join(site.getsitepackages()) + "\n")
    alone = user_python.run("-W", "error::RuntimeWarning", "-c", ALONE, cwd=tmp_path, has_compilers=False)
    assert "opsmith.check is not in the standalone wheel of rough" in alone.stdout
    assert len([line for line in alone.stdout.splitlines() if line.endswith("/_ops.so")]) == 2

    shared.write_text(text)
    program = tmp_path / "beside.py"
    program.write_text(BESIDE)
    beside = user_python.run(program, cwd=tmp_path, has_compilers=False)
    modules = "smooth._opsmith.runtime.operator rough._opsmith.runtime.operator opsmith.runtime.operator"
    assert beside.stdout.strip() == modules
    # opsmith checks what the wheel has, without a compiler.
    elsewhere = tmp_path / "elsewhere"  # no folder there has the package's name
    elsewhere.mkdir()
    checked = user_python.run(
        *("-m", "opsmith", "check", "smooth", "--device", "cpu", "--property", "value", "--property", "sizes"),
        cwd=elsewhere,
        has_compilers=False,
    )
    assert "all 2 properties hold" in checked.stdout
