"""The generated sources are those of `expected/`, letter for letter.

After a change that is meant, `OPSMITH_REGENERATE=1 pytest tests/codegen` writes them anew; read their diff.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from opsmith.codegen.binding import generate_binding
from opsmith.codegen.instantiate import SIGNATURE_MARK, instantiate
from opsmith.codegen.prototype import prototype, skeleton

EXPECTED = Path(__file__).with_name("expected")


def load_definitions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("codegen_definitions", Path(__file__).with_name("definitions.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where a dataclass looks its annotations up
    spec.loader.exec_module(module)
    return module


D = load_definitions()
GENERATED = {
    "pooled.binding.cpp": lambda: generate_binding([D.POOLED], ["cpu", "cuda"]),
    "pooled.cpu.cpp": lambda: instantiate([(D.POOLED, "cpu")], "kernels/pool.cpp"),
    "pooled.cuda.cu": lambda: instantiate([(D.POOLED, "cuda")], "kernels/pool.cu"),
    "blend.binding.cpp": lambda: generate_binding([D.BLEND], ["cpu"]),
    "blend.timed.binding.cpp": lambda: generate_binding([D.BLEND], ["cpu"], timed=True),
    "kept.timed.binding.cpp": lambda: generate_binding([D.KEPT], ["cpu", "cuda"], timed=True),
    "kept.binding.cpp": lambda: generate_binding([D.KEPT], ["cpu", "cuda"]),
    "gained_backward.binding.cpp": lambda: generate_binding([D.GAINED_BACKWARD], ["cpu", "cuda"]),
    "kept.cpu_cuda.cpp": lambda: instantiate([(D.KEPT, "cpu"), (D.KEPT, "cuda")], "kept.cpp"),
    "windowed.binding.cpp": lambda: generate_binding([D.WINDOWED], ["cpu", "cuda"]),
    "windowed.cpu.cpp": lambda: instantiate([(D.WINDOWED, "cpu")], "windowed.cpp"),
    "windowed.cuda.cu": lambda: instantiate([(D.WINDOWED, "cuda")], "windowed.cu"),
    "windowed.native.cpp": lambda: instantiate([(D.WINDOWED_NATIVE, "cpu")], "windowed.cpp"),
    "skeleton.windowed.cu": lambda: skeleton([D.WINDOWED], "cuda"),
    "skeleton.cpp": lambda: skeleton([D.POOLED, D.BLEND], "cpu"),
    "skeleton.cu": lambda: skeleton([D.POOLED], "cuda"),
    "skeleton.native.cpp": lambda: skeleton([D.KEPT], "cpu"),
    "prototypes.txt": lambda: "".join(
        f"{prototype(definition, device)}\n"
        for definition in (D.POOLED, D.BLEND, D.KEPT, D.GAINED_BACKWARD, D.WINDOWED, D.WINDOWED_NATIVE)
        for device in definition.kernels
    ),
}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_text_is_as_expected(name: str) -> None:
    text = GENERATED[name]()
    file = EXPECTED / name
    if os.environ.get("OPSMITH_REGENERATE"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_every_expected_file_is_generated() -> None:
    assert {file.name for file in EXPECTED.iterdir()} == set(GENERATED)


def test_a_device_without_a_kernel_is_left_out_of_the_binding() -> None:
    binding = generate_binding([D.BLEND, D.POOLED], ["cuda"])
    assert "blend" not in binding
    assert 'Library cuda_in_shop{"shop", "CUDA", __FILE__, __LINE__};' in binding
    assert "CPU" not in binding


def test_the_order_of_devices_does_not_matter() -> None:
    assert generate_binding([D.POOLED], ["cuda", "cpu"]) == generate_binding([D.POOLED], ["cpu", "cuda"])


def test_calls_of_kernels_are_marked_for_the_error_messages() -> None:
    lines = instantiate([(D.BLEND, "cpu")], "blend.cpp").splitlines()
    marks = [index for index, line in enumerate(lines) if line == f'#line 1 "{SIGNATURE_MARK}blend"']
    assert len(marks) == 1
    assert "&::blend<float>" in lines[marks[0] + 1]


def test_a_struct_of_several_kernels_is_filled_by_one_function() -> None:
    text = instantiate([(D.WINDOWED, "cpu"), (replace(D.WINDOWED, namespace="other"), "cpu")], "windowed.cpp")
    assert text.count("::Window fill_Window(") == 1
    assert text.count("::Scale fill_Scale(") == 1


def test_a_binding_is_the_same_with_and_without_a_dataclass() -> None:
    flat = replace(
        D.WINDOWED,
        signature=replace(
            D.WINDOWED.signature,
            parameters=tuple(replace(parameter, struct=None) for parameter in D.WINDOWED.signature.parameters),
        ),
    )
    assert generate_binding([flat], ["cpu", "cuda"]) == generate_binding([D.WINDOWED], ["cpu", "cuda"])
