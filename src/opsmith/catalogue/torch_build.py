"""Lists failures of torch.utils.cpp_extension, pip and setuptools with a known cause."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "torch-not-at-build-time",
        "pip builds in an environment without torch",
        r"ModuleNotFoundError: No module named 'torch'",
        (
            "pip and uv build a package in an isolated environment with only what its pyproject.toml requires; this "
            "package's setup.py imports torch without requiring it.",
        ),
        (
            "Build in your own environment: `pip install --no-build-isolation PACKAGE` (uv: `uv pip install "
            "--no-build-isolation "
            "PACKAGE`), after installing torch, setuptools, wheel and ninja.",
        ),
        "ModuleNotFoundError: No module named 'torch'",
        words=("No module named '",),
    ),
    Entry(
        "no-setuptools",
        "setuptools is not installed",
        r"ModuleNotFoundError: No module named '(?P<module>setuptools|pkg_resources|distutils)(?:\.\w+)*'",
        (
            "torch.utils.cpp_extension imports {module} even to load a finished library. Since Python 3.12, virtual "
            "environments come without setuptools, and setuptools 82 without pkg_resources.",
        ),
        (
            "`pip install setuptools wheel` (for pkg_resources: `pip install 'setuptools<82'`); opsmith.cpp_extension "
            "does not need it.",
        ),
        "ModuleNotFoundError: No module named 'setuptools'",
        words=("No module named '",),
    ),
    Entry(
        "no-ninja",
        "ninja is not installed",
        r"Ninja is required to load C\+\+ extensions|ninja was not found",
        ("The build needs the program ninja, which neither this Python nor PATH has.",),
        ("`pip install ninja`, or `apt-get install ninja-build`.",),
        "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
        words=(
            "Ninja is required to load C++ extensions",
            "ninja was not found",
        ),
    ),
    Entry(
        "no-gpu-at-build-time",
        "No GPU at build time, and no architecture given",
        r"_get_cuda_arch_flags[^\n]*(?:\n(?!\w+Error)[^\n]*){1,6}\nIndexError: list index out of range",
        (
            "torch.utils.cpp_extension asks the GPU for its architecture, but this machine (a container build, a "
            "login node) does not have one.",
        ),
        (
            "Set the architectures: `export TORCH_CUDA_ARCH_LIST='8.0;9.0+PTX'`; opsmith.cpp_extension builds for "
            "those by default.",
        ),
        '  File "/torch/utils/cpp_extension.py", line 2714, in _get_cuda_arch_flags\n    arch_list[-1] += "+PTX"\n'
        "IndexError: list index out of range",
        words=("IndexError: list index out of range",),
        lines=8,
    ),
    Entry(
        "unknown-arch-name",
        "torch does not know the architecture's name",
        r"ValueError: Unknown CUDA arch \((?P<arch>[^)]*)\) or GPU not supported",
        ("torch.utils.cpp_extension has a fixed list of architectures that lacks {arch}, whatever nvcc supports.",),
        ("Use opsmith.cpp_extension, which asks nvcc; or pass nvcc the flag: `-gencode=arch=compute_XX,code=sm_XX`.",),
        "ValueError: Unknown CUDA arch (12.0f) or GPU not supported",
        words=("Unknown CUDA arch (",),
    ),
    Entry(
        "externally-managed",
        "The system's Python does not accept packages",
        r"error: externally-managed-environment",
        ("The distribution protects its own Python from pip.",),
        ("Create an environment: `python3 -m venv ~/venv && . ~/venv/bin/activate`, and install there.",),
        "error: externally-managed-environment",
        words=("error: externally-managed-environment",),
    ),
)
