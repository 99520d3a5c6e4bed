"""The faults that are planted into wheels, each with the name under which the audit must find it.

A row changes one thing in a good wheel, which the audit has nothing to say about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpu_code import as_section, fat_binary
from make_library import SCHEMA, SHIMS, library
from make_wheel import wheel

from opsmith.store import digest_file

__all__ = ["PLANTED", "Planted", "good_wheel"]

OPS = "smooth/_ops.so"


@dataclass(frozen=True)
class Planted:
    """A fault: who makes the wheel, and the name of the finding. A note does not make the file refused."""

    name: str
    make: Callable[[Path], Path]
    finding: str
    is_fault: bool = True


def good_wheel(folder: Path) -> Path:
    """Return a wheel without a fault."""
    return wheel(folder, {OPS: library()})


def _with_library(**options: object) -> Callable[[Path], Path]:
    """Return what makes a good wheel but for its library."""
    return lambda folder: wheel(folder, {OPS: library(**options)})  # type: ignore[arg-type]


def _with_flag(flag: str) -> Callable[[Path], Path]:
    return _with_library(flags=(flag,))


def _with_calls(*names: str, **options: object) -> Callable[[Path], Path]:
    return lambda folder: wheel(folder, {OPS: library(calls=(*SHIMS, *names))}, **options)  # type: ignore[arg-type]


def _wheel(**options: object) -> Callable[[Path], Path]:
    return lambda folder: wheel(folder, {OPS: library()}, **options)  # type: ignore[arg-type]


def described(folder: Path, data: bytes, archs: tuple[str, ...]) -> bytes:
    """Return what opsmith writes beside a library."""
    from opsmith.store import Manifest

    file = folder / "_ops.so"
    file.write_bytes(data)
    manifest = Manifest(
        "smooth",
        "_ops.so",
        digest_file(file),
        len(data),
        {},
        ("cpu",),
        archs,
        {},
        None,
        "2026-11-25T12:00:00+00:00",
        "0",
    )
    return manifest.to_json().encode()


def gpu_wheel(folder: Path, archs: tuple[str, ...], *found: str) -> Path:
    """Return a wheel whose description promises architectures, with code for others."""
    data = library(code=as_section(".nv_fatbin", fat_binary(*found)))
    return wheel(folder, {OPS: data, "smooth/_ops.json": described(folder, data, archs)})


def _changed_library(folder: Path) -> Path:
    data = library()
    text = json.loads(described(folder, data, ()))
    return wheel(folder, {OPS: data, "smooth/_ops.json": json.dumps({**text, "sha256": "0" * 64}).encode()})


_LIBC = ("libc.so.6", "GLIBC_2.34", ("new_in_libc",))
_LIBSTDCXX = ("libstdc++.so.6", "GLIBCXX_3.4.32", ("new_in_libstdcxx",))
_TORCH = ("libtorch_cpu.so", "", ())

PLANTED = (
    Planted("a symbol of torch's C++ API", _with_calls("_ZNK2at6Tensor4sizeEl"), "unstable-torch-symbols"),
    Planted(
        "a function newer than the required torch", _with_calls("torch_tensor_from_pyobject"), "torch-floor-too-low"
    ),
    Planted("a required torch older than the functions", _wheel(requires=("torch>=2.9",)), "torch-floor-too-low"),
    Planted("a torch of no release", _with_calls("aoti_torch_of_tomorrow"), "unknown-torch-function"),
    Planted("no requirement of torch", _wheel(requires=("numpy",)), "torch-requirement-missing"),
    Planted(
        "no requirement of opsmith",
        lambda folder: wheel(
            folder,
            {
                "smooth/_ops.json": described(folder, library(), ()),
                OPS: library(),
                "smooth/lowpass.py": b"import torch\nimport opsmith\n",
            },
        ),
        "opsmith-requirement-missing",
    ),
    Planted("torch in an extra alone", _wheel(requires=('torch>=2.10; extra == "gpu"',)), "torch-requirement-missing"),
    Planted(
        "torch on another system alone",
        _wheel(requires=('torch>=2.10; sys_platform == "win32"',)),
        "torch-requirement-missing",
    ),
    Planted(
        "torch for some Pythons alone",
        _wheel(requires=('torch>=2.10; python_version < "3.12"',)),
        "torch-requirement-missing",
    ),
    Planted("Python under py3-none", _with_calls("PyObject_Call"), "python-symbols-under-none"),
    Planted(
        "a private symbol under abi3",
        _with_calls("PyDict_SetDefault", tag="cp310-abi3-manylinux_2_28_x86_64"),
        "private-python-api",
    ),
    Planted(
        "a symbol newer than the tag's Python",
        _with_calls("PyType_GetName", tag="cp310-abi3-manylinux_2_28_x86_64"),
        "python-newer-than-tag",
    ),
    Planted(
        "a module of another Python",
        lambda folder: wheel(
            folder, {"smooth/_C.cpython-310-x86_64-linux-gnu.so": library()}, tag="cp311-cp311-manylinux_2_28_x86_64"
        ),
        "extension-of-another-python",
    ),
    Planted(
        "a library of one Python",
        _with_library(stubs=(_TORCH, ("libpython3.11.so.1.0", "", ()))),
        "links-libpython",
    ),
    Planted(
        "glibc newer than the tag",
        _with_library(calls=(*SHIMS, "new_in_libc"), stubs=(_TORCH, _LIBC)),
        "glibc-newer-than-tag",
    ),
    Planted(
        "glibc newer than one of two tags",
        lambda folder: wheel(
            folder,
            {OPS: library(calls=(*SHIMS, "new_in_libc"), stubs=(_TORCH, _LIBC))},
            tag="py3-none-manylinux_2_17_x86_64.manylinux_2_34_x86_64",
        ),
        "glibc-newer-than-tag",
    ),
    Planted(
        "libstdc++ newer than the tag",
        _with_library(calls=(*SHIMS, "new_in_libstdcxx"), stubs=(_TORCH, _LIBSTDCXX)),
        "libstdcxx-newer-than-tag",
    ),
    Planted("a library in a wheel for any platform", _wheel(tag="py3-none-any"), "any-with-binary"),
    Planted("another architecture in the tag", _wheel(tag="py3-none-manylinux_2_28_aarch64"), "wrong-architecture"),
    Planted("another tag inside", _wheel(declared="py3-none-any"), "tags-differ"),
    Planted(
        "musl under a tag for glibc", _with_library(stubs=(_TORCH, ("libc.musl-x86_64.so.1", "", ()))), "wrong-libc"
    ),
    Planted("an absolute RPATH", _with_flag("-Wl,-rpath,/home/builder/env/lib"), "leaked-rpath"),
    Planted("a relative RPATH", _with_flag("-Wl,-rpath,../lib"), "leaked-rpath"),
    Planted("an executable stack", _with_flag("-Wl,-z,execstack"), "executable-stack"),
    Planted(
        "less code than promised", lambda folder: gpu_wheel(folder, ("8.0", "9.0+PTX"), "80", "90"), "missing-arch"
    ),
    Planted("an architecture too few", lambda folder: gpu_wheel(folder, ("8.0", "9.0a"), "80", "90"), "missing-arch"),
    Planted("a library changed after its build", _changed_library, "manifest-differs"),
    Planted(
        "the driver bundled",
        lambda folder: wheel(folder, {OPS: library(), "smooth.libs/libcuda-1a2b3c4d.so.1": library(calls=())}),
        "bundled-driver",
    ),
    Planted(
        "torch bundled",
        lambda folder: wheel(folder, {OPS: library(), "smooth.libs/libc10-1a2b3c4d.so": library(calls=())}),
        "bundled-torch",
    ),
    Planted("another digest in RECORD", _wheel(wrong_digest_of=OPS), "record"),
    Planted("a file that RECORD lacks", _wheel(unlisted=OPS), "record"),
    Planted("a file that is not there", _wheel(absent="smooth/gone.py"), "record"),
    Planted(
        "a namespace claimed twice",
        lambda folder: wheel(
            folder,
            {
                name: library(code="void TORCH_LIBRARY_static_init_smooth_1(void) {}")
                for name in ("smooth/_a.so", "smooth/_b.so")
            },
        ),
        "namespace-clash",
    ),
    Planted("a broken library", lambda folder: wheel(folder, {OPS: library()[:2000]}), "broken-library"),
    Planted(
        "torch's Python library",
        _with_library(stubs=(_TORCH, ("libtorch_python.so", "", ()))),
        "links-libtorch-python",
        False,
    ),
    Planted("an RPATH out of site-packages", _with_flag("-Wl,-rpath,$ORIGIN/../../lib"), "rpath-far-away", False),
    Planted(
        "an RPATH of the system",
        _with_flag("-Wl,-rpath,/usr/local/cuda/lib64"),
        "rpath-of-the-system",
        False,
    ),
    Planted("the driver linked", _with_library(stubs=(_TORCH, ("libcuda.so.1", "", ()))), "links-libcuda", False),
    Planted("one CUDA linked", _with_library(stubs=(_TORCH, ("libcudart.so.12", "", ()))), "tied-to-cuda", False),
    Planted(
        "one ROCm linked", _with_library(stubs=(_TORCH, ("libamdhip64.so.6", "", ()))), "tied-to-rocm", is_fault=False
    ),
    Planted("no PTX", lambda folder: gpu_wheel(folder, ("8.0", "9.0"), "80", "90"), "no-ptx", False),
    Planted(
        "a library of nobody's", _with_library(stubs=(_TORCH, ("libfftw3.so.3", "", ()))), "library-from-outside", False
    ),
    Planted(
        "a path of the build machine",
        _with_library(texts=(SCHEMA, "smooth::lowpass", "/home/builder/smooth/lowpass.cpp")),
        "absolute-path",
        False,
    ),
    Planted("no licence", _wheel(licence=False), "no-licence", False),
    Planted("time stamps of a build", _wheel(times={OPS: (2026, 11, 25, 12, 0, 2)}), "time-stamps", False),
    Planted("a tag of no promise", _wheel(tag="py3-none-linux_x86_64"), "no-manylinux-tag", False),
    Planted(
        "a namespace of torch",
        _with_library(code="void TORCH_LIBRARY_FRAGMENT_static_init_aten_1(void) {}"),
        "namespace-of-torch",
        False,
    ),
)
