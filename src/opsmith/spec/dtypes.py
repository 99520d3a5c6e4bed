"""Lists the element types of tensors and their names in PyTorch, C++ and jaxtyping.

A definition's tensors are *generic* or *pinned*. Generic floating tensors (`Float[...]`) share one element type, the
kernel's template parameter `T`; generic integer tensors (`Int[...]`) share another, `I`. A pinned tensor
(`Float32[...]`, `Int64[...]`) has one element type and no template parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["DTYPES", "GENERICS", "DType", "Generic", "element_of_jaxtyping", "from_torch"]


@dataclass(frozen=True)
class DType:
    """One element type.

    `name` is PyTorch's (`torch.<name>`) and goes into symbol names, `cpp` is the C++ type in a kernel's signature, and
    `scalar_type` the enumerator of `torch::headeronly::ScalarType`.
    """

    name: str
    cpp: str
    scalar_type: str

    @property
    def torch(self) -> torch.dtype:
        """The `torch.dtype` of the same name."""
        import torch

        found = getattr(torch, self.name)
        assert isinstance(found, torch.dtype)
        return found


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("float16", "opsmith::float16", "Half"),
        DType("bfloat16", "opsmith::bfloat16", "BFloat16"),
        DType("float32", "float", "Float"),
        DType("float64", "double", "Double"),
        DType("uint8", "uint8_t", "Byte"),
        DType("int8", "int8_t", "Char"),
        DType("int16", "int16_t", "Short"),
        DType("int32", "int32_t", "Int"),
        DType("int64", "int64_t", "Long"),
        DType("bool", "bool", "Bool"),
    )
}


@dataclass(frozen=True)
class Generic:
    """A template parameter for element types: its letter in C++, the types it may stand for, and its default choice."""

    letter: str
    allowed: tuple[str, ...]
    default: tuple[str, ...]


_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("uint8", "int8", "int16", "int32", "int64")

# jaxtyping's name of an annotation -> the generic parameter it stands for.
GENERICS: dict[str, Generic] = {
    "Float": Generic("T", _FLOATS, _FLOATS),
    "Inexact": Generic("T", _FLOATS, _FLOATS),
    "Real": Generic("T", (*_FLOATS, *_INTEGERS), (*_FLOATS, *_INTEGERS)),
    "Num": Generic("T", (*_FLOATS, *_INTEGERS), (*_FLOATS, *_INTEGERS)),
    "Int": Generic("I", _INTEGERS[1:], ("int32", "int64")),
    "Integer": Generic("I", _INTEGERS, ("int32", "int64")),
}

# jaxtyping's pinned annotations -> the element type.
_PINNED: dict[str, str] = {
    "Float16": "float16",
    "BFloat16": "bfloat16",
    "Float32": "float32",
    "Float64": "float64",
    "UInt8": "uint8",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "Bool": "bool",
}


def element_of_jaxtyping(name: str) -> DType | Generic | None:
    """Return what an annotation of jaxtyping's stands for, or None if opsmith has no such element type."""
    if name in _PINNED:
        return DTYPES[_PINNED[name]]
    return GENERICS.get(name)


def from_torch(dtype: torch.dtype) -> DType | None:
    """Return the table's entry for a `torch.dtype`, or None if there is none (complex, float8, ...)."""
    return DTYPES.get(str(dtype).removeprefix("torch."))
