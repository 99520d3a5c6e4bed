"""Lists failures of torch.utils.cpp_extension, pip and setuptools with a known cause."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "torch-not-at-build-time",
        "pip builds where torch is not",
        r"ModuleNotFoundError: No module named 'torch'",
        (
            "pip and uv build a package in an environment of its own, which has only what the package's "
            "pyproject.toml asks for; "
            "this one's setup.py imports torch and does not ask for it.",
        ),
        (
            "Build in your own environment: `pip install --no-build-isolation PACKAGE` (uv: `uv pip install "
            "--no-build-isolation "
            "PACKAGE`), with torch, setuptools, wheel and ninja installed before.",
        ),
        "ModuleNotFoundError: No module named 'torch'",
    ),
    Entry(
        "no-setuptools",
        "setuptools is not installed",
        r"ModuleNotFoundError: No module named '(?P<module>setuptools|pkg_resources|distutils)(?:\.\w+)*'",
        (
            "torch.utils.cpp_extension imports {module} even to load a finished library. From Python 3.12 on a virtual "
            "environment has no setuptools, and setuptools 82 has no pkg_resources.",
        ),
        (
            "`pip install setuptools wheel` (for pkg_resources: `pip install 'setuptools<82'`); opsmith.cpp_extension "
            "needs none.",
        ),
        "ModuleNotFoundError: No module named 'setuptools'",
    ),
    Entry(
        "no-ninja",
        "ninja is not installed",
        r"Ninja is required to load C\+\+ extensions|ninja was not found",
        ("The build needs the program ninja, and neither this Python nor PATH has it.",),
        ("`pip install ninja`, or `apt-get install ninja-build`.",),
        "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
    ),
    Entry(
        "no-gpu-at-build-time",
        "No GPU at build time, and no architecture named",
        r"_get_cuda_arch_flags[^\n]*(?:\n(?!\w+Error)[^\n]*){1,6}\nIndexError: list index out of range",
        (
            "torch.utils.cpp_extension asks the GPU for its architecture, and this machine (a container build, a "
            "login node) has "
            "none.",
        ),
        (
            "Name the architectures: `export TORCH_CUDA_ARCH_LIST='8.0;9.0+PTX'`; opsmith.cpp_extension builds for "
            "those by "
            "itself.",
        ),
        '  File "/torch/utils/cpp_extension.py", line 2714, in _get_cuda_arch_flags\n    arch_list[-1] += "+PTX"\n'
        "IndexError: list index out of range",
    ),
    Entry(
        "unknown-arch-name",
        "torch does not know the architecture's name",
        r"ValueError: Unknown CUDA arch \((?P<arch>[^)]*)\) or GPU not supported",
        ("torch.utils.cpp_extension has a fixed list of architectures, and {arch} is not in it, whatever nvcc knows.",),
        ("Use opsmith.cpp_extension, which asks nvcc; or give nvcc the flag: `-gencode=arch=compute_XX,code=sm_XX`.",),
        "ValueError: Unknown CUDA arch (12.0f) or GPU not supported",
    ),
    Entry(
        "externally-managed",
        "The system's Python takes no packages",
        r"error: externally-managed-environment",
        ("The distribution guards its own Python against pip.",),
        ("Make an environment: `python3 -m venv ~/venv && . ~/venv/bin/activate`, and install there.",),
        "error: externally-managed-environment",
    ),
)
