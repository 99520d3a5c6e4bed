"""An edited gradient is the one that torch.compile uses, although its cache on disk knows operators by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.compiler.config

from opsmith.ops.add2 import add2
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile

DEFINITION = """
import torch
from jaxtyping import Float
from torch import Tensor
import opsmith

@opsmith.op
def power(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x**{exponent}
"""
CHILD = """
import torch
from power_operator import power
x = torch.full((4,), 2.0, requires_grad=True)
torch.compile(lambda x: power(x).sum(), fullgraph=True)(x).backward()
print(x.grad[0].item())
"""


@pytest.mark.nightly("three processes compile with Inductor")
def test_an_edited_body_gives_its_own_gradient(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    for exponent, gradient in ((2, "4.0"), (3, "12.0"), (2, "4.0")):
        (tmp_path / "power_operator.py").write_text(DEFINITION.format(exponent=exponent))
        done = subprocess.run(
            [sys.executable, "-B", "-c", CHILD], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == gradient


def test_the_tag_of_the_user_stays() -> None:
    add2.load()
    sigmoid.load()
    tag = torch.compiler.config.cache_key_tag
    assert tag.count("opsmith-") == 1
