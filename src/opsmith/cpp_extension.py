"""What torch.utils.cpp_extension offers, built by opsmith: `load`, `load_inline` and setuptools' extensions.

Change the import and keep the rest:

    from opsmith.cpp_extension import BuildExtension, CppExtension

    setup(name="lltm", ext_modules=[CppExtension("lltm_cpp", ["lltm.cpp"])], cmdclass={"build_ext": BuildExtension})

This is the beginning of a drop-in, and the complete one is still to come: what is not here (SYCL, `py_limited_api`, device
linking, hipify, `include_paths`, `CUDA_HOME` and other module attributes) is still PyTorch's to do.
"""

from __future__ import annotations

from typing import Any

from opsmith.build.setuptools import BuildOperators, ExistingExtension
from opsmith.runtime.existing import load, load_inline

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "load", "load_inline"]


# The names are PyTorch's, and there too they are functions that look like classes.
def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> ExistingExtension:  # noqa: N802
    """Return a setuptools extension of C++ files over torch's C++ API. It takes what setuptools.Extension takes.

    `extra_compile_args` is a list for the C++ compiler. -O3 comes first, so -O0 there wins. Raises ArgumentError.
    """
    return ExistingExtension(name, sources, *args, **kwargs)


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> ExistingExtension:  # noqa: N802
    """Return a setuptools extension of C++ and CUDA files; the C++ files too may call the CUDA runtime.

    `extra_compile_args` is a list for the C++ compiler, or {"cxx": [...], "nvcc": [...]}. Architectures come from
    OPSMITH_CUDA_ARCHS or TORCH_CUDA_ARCH_LIST, else from the GPUs of this machine. Raises ArgumentError.
    """
    return ExistingExtension(name, sources, *args, with_gpu=True, **kwargs)


class BuildExtension(BuildOperators):
    """The build_ext command for these extensions; other extensions are built by setuptools as ever."""

    no_python_abi_suffix = False

    @classmethod
    def with_options(cls, *, use_ninja: bool = True, no_python_abi_suffix: bool = False) -> type[BuildExtension]:
        """Return the command with options. `use_ninja` changes nothing: opsmith's plans run in ninja, linking too.

        `no_python_abi_suffix` names a library `lltm.so`, not `lltm.cpython-313-x86_64-linux-gnu.so`.
        """
        return type(cls.__name__, (cls,), {"no_python_abi_suffix": no_python_abi_suffix})

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of an extension's file below the folder of the packages."""
        name = str(super().get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        stem, _, suffix = name.rpartition(".")
        return f"{stem.rpartition('.')[0]}.{suffix}" if self.no_python_abi_suffix and "." in stem else name
