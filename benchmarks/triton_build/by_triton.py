"""Compiles a kernel as Triton itself does ahead of time: for what a request of opsmith lists, one after the other.

python by_triton.py REQUEST KERNEL.py COUNT
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import triton

request = json.loads(Path(sys.argv[1]).read_text())
spec = importlib.util.spec_from_file_location("kernels", sys.argv[2])
assert spec is not None and spec.loader is not None
kernels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernels)
function = getattr(kernels, request["function"])
for variant in request["kernels"][: int(sys.argv[3])]:
    names = list(variant["types"])
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in variant["multiples"]}
    source = ASTSource(function, variant["types"], variant["constants"], attributes)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=variant["options"])
    assert made.asm["cubin"][:4] == b"\x7fELF"
