"""Describes an extension: the sources of one shared library and what they need, whatever builds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = [
    "NVCC_FLAGS",
    "TEXT_MARK",
    "Api",
    "ExistingSources",
    "Extension",
    "Kind",
    "Language",
    "Source",
]

# The line that a generated text has before what the user gave as text, followed by `<argument>[<index>]`. A comment: a #line
# would be __FILE__ in the library, and nothing can open that.
TEXT_MARK = "// opsmith-text:"

Language = Literal["cxx", "gpu", "sycl", "triton", "nvrtc", "cute"]

# Which of torch's headers a source includes, and so what it is compiled and linked with:
#   none     no framework header (view kernels)
#   stable   torch's stable C++ ABI: one binary serves every torch since TORCH_TARGET
#   full     the whole C++ API, with Python: the binary fits one torch and one Python
Api = Literal["none", "stable", "full"]


# What comes out: a module that Python imports, a library that is loaded for what it registers, or a program.
Kind = Literal["module", "library", "program"]

# What torch compiles its own CUDA sources with, and therefore existing ones are written for: c10::Half brings the
# operators and conversions that these take away from __half.
NVCC_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)


@dataclass(frozen=True)
class Source:
    """One translation unit.

    `name` is unique in the extension and names its object file. The text is `text` where it is generated, else that of
    the file `path`. `users` are the user's own files behind it: what an error message may point to.
    """

    name: str
    language: Language
    api: Api
    text: str | None = None
    path: Path | None = None
    users: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extension:
    """One shared library. `root` is the folder that the user's paths are relative to."""

    name: str
    root: Path
    sources: tuple[Source, ...]
    devices: tuple[str, ...]
    library: str = "_ops.so"
    include_dirs: tuple[Path, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    gpu_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    @property
    def needs_gpu_compiler(self) -> bool:
        """Whether any source is compiled by nvcc or hipcc."""
        return any(source.language == "gpu" for source in self.sources)

    @property
    def api(self) -> Api:
        """The widest of the APIs that the sources use: it decides what the binary depends on."""
        return "full" if any(source.api == "full" for source in self.sources) else "stable"


@dataclass(frozen=True)
class ExistingSources(Extension):
    """Sources that were written for torch.utils.cpp_extension, and what its arguments say about them."""

    kind: Kind = "module"
    # Names for -l, in the linker's order; None: those of torch that the sources' languages ask for.
    libraries: tuple[str, ...] | None = None
    library_dirs: tuple[Path, ...] = ()
    nvcc_flags: tuple[str, ...] = NVCC_FLAGS
    sycl_flags: tuple[str, ...] = ()
    # What nvcc links device code with, where that is a step of its own (relocatable device code); None: it is not.
    dlink_flags: tuple[str, ...] | None = None
    # The oldest Python that the module should load in, as Py_LIMITED_API is written.
    limited_api: str | None = None
    with_sycl: bool = False
    # Where sources that are given as text are kept as files, for who opens __FILE__ or debugs the library.
    texts_dir: Path | None = None
    # Whether the library can give back what it registered, so that its next version can be loaded beside it.
    reloadable: bool = False
