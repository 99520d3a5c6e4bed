"""Lists failures that mean that an operator or a class is registered twice."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "library-twice",
        "A TORCH_LIBRARY namespace is registered twice",
        r"Only a single TORCH_LIBRARY can be used to register the namespace (?P<namespace>\w+)",
        (
            "Two libraries in this process have a TORCH_LIBRARY({namespace}, ...): two builds of the same sources, or "
            "two packages with the same name.",
        ),
        (
            "Start a new process after each change of the sources. To load both, use "
            "`TORCH_LIBRARY_FRAGMENT` in one of them, or another namespace.",
        ),
        "RuntimeError: Only a single TORCH_LIBRARY can be used to register the namespace demo; please put all of your "
        "definitions in a single TORCH_LIBRARY block.",
        words=("Only a single TORCH_LIBRARY can be used",),
    ),
    Entry(
        "operator-twice",
        "An operator is registered twice",
        r"Tried to register an operator \((?P<operator>[\w:]+)|registered? (?:the same|multiple) operator|"
        r"operator (?P<schema>\S+) (?:is|was) already (?:registered|defined)",
        (
            "{operator} is defined twice in this process: by two builds of the same sources, or by two packages with "
            "the same name.",
        ),
        (
            "Start a new process (in a notebook: restart the kernel) after each change of the sources, or rename one "
            "of the operators in its `m.def(...)`.",
        ),
        "RuntimeError: Tried to register an operator (demo::twice(Tensor x) -> Tensor) with the same name and "
        "overload name multiple times.",
        words=(
            "Tried to register an operator (",
            "the same operator",
            "multiple operator",
            "already registered",
            "already defined",
        ),
    ),
    Entry(
        "class-twice",
        "A pybind11 class is registered twice",
        r'generic_type: (?:cannot initialize )?type "(?P<type>[^"]+)"(?: is already registered!|: an object with that '
        r"name is "
        r"already defined)",
        ('Another module, or another build of this one, has registered the C++ class "{type}" in this process.',),
        ("Declare it with `py::class_<...>(m, ..., py::module_local())`, or start a new process.",),
        'ImportError: generic_type: type "Counter" is already registered!',
        words=("generic_type: ",),
    ),
    Entry(
        "no-such-operator",
        "An operator's library is not loaded",
        r"'_OpNamespace' '(?P<namespace>\w+)' object has no attribute '(?P<operator>\w+)'"
        r"|Could not find schema for (?P<schema>[\w:.]+)",
        (
            "Nothing has defined {namespace}::{operator} in this process: its library is not loaded, or was built "
            "without it.",
            "Nothing has defined {schema} in this process.",
        ),
        ("Import the package, or `torch.ops.load_library(PATH)`, before the call.",),
        "AttributeError: '_OpNamespace' 'demo' object has no attribute 'twice'",
        words=(
            "'_OpNamespace' '",
            "Could not find schema for ",
        ),
    ),
    Entry(
        "no-kernel-for-backend",
        "An operator has no kernel for this device",
        r"Could not run '(?P<operator>[\w:.]+)' with arguments from the '(?P<backend>\w+)' backend",
        (
            "{operator} was called with a tensor of {backend}, but its library has no kernel for that: it was built "
            "without one, or the tensor is on the wrong device.",
        ),
        (
            "Move the tensor, or build the library with that device's compiler; `opsmith doctor` shows what can be "
            "built here.",
        ),
        "NotImplementedError: Could not run 'demo::twice' with arguments from the 'CUDA' backend.",
        words=("Could not run '",),
    ),
    Entry(
        "no-fake-kernel",
        "An operator does not have a fake kernel",
        r"(?<![\w:])(?P<operator>[\w:]+): attempted to run this operator with Meta tensors, but there was no fake impl",
        (
            "{operator} does not have a fake kernel, from which torch.compile and torch.export learn the shapes of "
            "its outputs.",
        ),
        (
            "Register one: `@torch.library.register_fake('{operator}')` over a function that returns an empty tensor "
            "of the right shape. Operators declared with opsmith have one.",
        ),
        "NotImplementedError: demo::twice: attempted to run this operator with Meta tensors, but there was no fake "
        "impl or Meta kernel registered.",
        words=("attempted to run this operator with Meta tensors",),
    ),
)
