"""Defines every exception that opsmith raises on purpose, in one tree.

Each message says what happened, what was found, and what to do about it. An exception that is also a ValueError, a
TypeError, a RuntimeError or an OSError is so because PyTorch raises that for the same mistake.
"""

from __future__ import annotations

import reprlib

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AuditError",
    "BuildError",
    "CheckError",
    "CompileError",
    "DefinitionError",
    "DeviceError",
    "DtypeError",
    "GradientError",
    "LoadError",
    "MissingSourceError",
    "MissingToolkitError",
    "OpsmithError",
    "ShapeError",
    "SignatureError",
    "SizeError",
    "StoreError",
    "ToolchainError",
    "UnsupportedTorchError",
    "describe",
]


class OpsmithError(Exception):
    """Base of every exception that opsmith raises on purpose."""


class DefinitionError(OpsmithError, TypeError):
    """A definition is invalid for an operator; raised at its declaration."""


class ArgumentError(OpsmithError):
    """An operator was called with arguments that do not fit its definition."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is missing, unknown, or of the wrong Python type."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has an invalid value, or two values contradict each other."""


class MissingSourceError(ArgumentError, FileNotFoundError):
    """A source file that is to be compiled does not exist."""


class ShapeError(ArgumentError, ValueError):
    """A tensor's rank or size does not fit the definition."""


class SizeError(ShapeError, ArithmeticError):
    """The arithmetic of a size divides by zero or has a result of more than 64 bits."""


class DtypeError(ArgumentError, TypeError):
    """A tensor's element type does not fit the definition."""


class DeviceError(ArgumentError, ValueError):
    """Tensors are on different devices, or on one that the operator does not support."""


class GradientError(OpsmithError, RuntimeError):
    """The definition does not provide a gradient that is needed."""


class ToolchainError(OpsmithError, RuntimeError):
    """A compiler, header or library that a build needs is missing or unusable."""


class MissingToolkitError(ToolchainError, OSError):
    """A GPU toolkit that a build needs is not installed, or torch is built without it."""


class UnsupportedTorchError(ToolchainError, ImportError):
    """The torch of this Python is older than the ABI that opsmith's libraries use."""


class BuildError(OpsmithError, RuntimeError):
    """A build failed."""


class CompileError(BuildError):
    """A compiler or the linker rejected the user's code."""


class SignatureError(CompileError):
    """A kernel's signature does not match its definition."""


class StoreError(OpsmithError, RuntimeError):
    """The store cannot be read or written."""


class LoadError(OpsmithError, RuntimeError):
    """A finished artefact cannot be loaded."""


class AuditError(OpsmithError, ValueError):
    """A library or a wheel cannot be read: it is damaged, or larger than it may be."""


class CheckError(OpsmithError, AssertionError):
    """A check found that an operator differs from its definition; the message is the whole report."""


def describe(value: object) -> str:
    """Return the type of a value and a short text of it, of a tensor or array its element type and sizes.

    A list of a million numbers, a huge integer or an object whose `repr` raises takes no more than a line either.
    """
    return f"{type(value).__name__} {_SUMMARY.repr(value)}"


class _Summary(reprlib.Repr):
    def repr1(self, x: object, level: int) -> str:
        """Return the text of a value that is nested in others this much less than the limit."""
        dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
        if dtype is not None and isinstance(shape, tuple) and not isinstance(x, type):
            name = f"{type(x).__name__} " if level < self.maxlevel else ""
            return f"{name}{str(dtype).removeprefix('torch.')} {list(shape)}"
        if isinstance(x, int) and x.bit_length() > 200:
            return f"of {x.bit_length()} bits"  # Python refuses to print much longer ones
        return super().repr1(x, level)


_SUMMARY = _Summary()
_SUMMARY.maxlevel, _SUMMARY.maxother, _SUMMARY.maxstring, _SUMMARY.maxlong = 3, 60, 60, 60
