"""Calls NVRTC, a C library. https://docs.nvidia.com/cuda/nvrtc describes each of these functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Compiled", "Nvrtc"]


@dataclass(frozen=True)
class Compiled:
    """What came of a program: the code, None where it does not compile, the lowered names, and what NVRTC said."""

    code: bytes | None
    names: tuple[str, ...]
    log: str


class Nvrtc:
    """NVRTC as it lies in a file, with its other part beside it."""

    def __init__(self, file: Path) -> None:
        # It opens this by its name alone when it compiles; not every wheel's finds its own folder by itself.
        self._parts = [ctypes.CDLL(str(part)) for part in file.parent.glob("libnvrtc-builtins.so.*")]
        self._library = ctypes.CDLL(str(file))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, source: str, name: str, options: Sequence[str], expressions: Sequence[str]) -> Compiled:
        """Compile a program for one architecture, with the functions that C++ expressions name, templates among them.

        The code is machine code where the architecture in the options is "sm_...", and PTX where it is "compute_...".
        """
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), source.encode(), name.encode(), ctypes.c_int(0), None, None
            )
        )
        try:
            for expression in expressions:
                self._check(self._library.nvrtcAddNameExpression(program, expression.encode()))
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, ctypes.c_int(len(options)), words)
            log = self._text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            if status != 0:
                return Compiled(None, (), log or f"nvrtc: error: {self._words(status)}")
            names = tuple(self._lowered(program, expression) for expression in expressions)
            is_ptx = any("compute_" in option for option in options)
            return Compiled(self._text(program, "PTX" if is_ptx else "CUBIN"), names, log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        name = ctypes.c_char_p()
        self._check(self._library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
        assert name.value is not None
        return name.value.decode()

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.raw

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"NVRTC: {self._words(status)}")

    def _words(self, status: int) -> str:
        found: bytes = self._library.nvrtcGetErrorString(status)
        return found.decode()
