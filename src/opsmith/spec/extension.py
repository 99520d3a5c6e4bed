"""What is built: the sources of one shared library and what they need, whoever wrote them and whatever builds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["TEXT_MARK", "Api", "Extension", "Language", "Source"]

# A generated text starts what the user gave as text with `#line 1 "opsmith-text:<argument>[<index>]"`, so that
# compilers count the user's lines.
TEXT_MARK = "opsmith-text:"

Language = Literal["cxx", "gpu"]

# Which of torch's headers a source includes, and so what it is compiled and linked with:
#   none     no framework header (view kernels)
#   stable   torch's stable C++ ABI: one binary serves every torch since TORCH_TARGET
#   full     the whole C++ API, with Python: the binary fits one torch and one Python
Api = Literal["none", "stable", "full"]


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
