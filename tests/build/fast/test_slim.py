"""The slim header is used where it is enough, and it lacks nothing that an error would not tell."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from opsmith.build.fast.scan import scan_source
from opsmith.build.fast.slim import SLIM_DIR, may_lack_headers, slim_defines
from opsmith.build.messages import Message
from opsmith.spec.extension import Source
from opsmith.toolchain import find_host_compiler, find_torch

TORCH = "#include <torch/extension.h>\n"


def defines(text: str):
    return slim_defines(scan_source(Source("a.cpp", "cxx", "full", text=text), ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TORCH + "torch::Tensor f(torch::Tensor x);", ()),
        ("#include <torch/torch.h>\nat::Tensor f();", ()),
        (TORCH + "struct F : torch::autograd::Function<F> {};", ("-DOPSMITH_SLIM_AUTOGRAD",)),
        (TORCH + "torch::NoGradGuard guard;", ("-DOPSMITH_SLIM_UTILS",)),
        (TORCH + "TORCH_LIBRARY_FRAGMENT(x, m) {}", ("-DOPSMITH_SLIM_LIBRARY",)),
        (TORCH + "#if TORCH_VERSION_MAJOR >= 2\n#endif", ()),
        (TORCH + "torch::nn::Linear layer;", None),
        (TORCH + "torch :: save(x, y);", None),
        (TORCH + "TORCH_MODULE(Net);", None),
        (TORCH + "#include <torch/script.h>", None),
        (TORCH + "#if AT_MKLDNN_ENABLED()\n#endif", None),
        ("#include <ATen/ATen.h>", None),
    ],
)
def test_what_a_source_mentions_decides(text, expected):
    assert defines(text) == expected


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("'nn' is not a member of 'torch'", True),
        ("no member named 'optim' in namespace 'torch'", True),
        ('namespace "torch" has no member "nn"', True),
        ("invalid use of incomplete type 'class torch::jit::Module'", True),
        ("no match for 'operator<<' (operand types are 'std::ostream' and 'at::Tensor')", True),
        ("expected ';' before '}' token", False),
        ("'return' with no value, in function returning 'at::Tensor'", False),
    ],
)
def test_only_errors_about_what_is_unknown_are_tried_again(text, may):
    assert may_lack_headers((Message("a.cpp", 1, 1, text),)) is may


def test_an_error_that_cannot_be_read_is_tried_again():
    assert may_lack_headers(())


def headers_of(text: str, *flags: str) -> set[Path]:
    torch, python = find_torch(), sysconfig.get_path("include")
    system = [word for folder in (*torch.include_dirs, python) for word in ("-isystem", str(folder))]
    argv = [*find_host_compiler().command, "-std=c++20", *flags, *system, "-M", "-xc++", "-"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    return {
        Path(word).resolve() for word in done.stdout.replace("\\\n", " ").split()[1:] if word.endswith((".h", ".hpp"))
    }


@pytest.mark.slow("reads what the headers of PyTorch include")
@pytest.mark.compile
def test_no_conversion_between_python_and_cpp_is_missing():
    """A type_caster that is not seen makes no error: pybind11 takes its general one, and a call fails at run time."""
    whole = headers_of(TORCH)
    slim = headers_of(TORCH, f"-I{SLIM_DIR}", "-DOPSMITH_SLIM_AUTOGRAD", "-DOPSMITH_SLIM_UTILS")
    left_out = whole - slim
    assert len(left_out) > 100, "the slim header leaves nothing out"
    assert len(slim) < len(whole)
    specialised = re.compile(r"type_caster\s*<|PYBIND11_DECLARE_HOLDER_TYPE|PYBIND11_MAKE_OPAQUE")
    found = [file for file in left_out if specialised.search(file.read_text(errors="replace"))]
    assert found == []
