"""Describes what an operator takes and returns, as frozen data, and writes PyTorch's schema of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import Any

from opsmith.spec.dtypes import DTYPES, DType, Generic
from opsmith.spec.shapes import Shape

__all__ = ["Kind", "Output", "Parameter", "Signature", "Struct", "TensorType"]


class Kind(enum.Enum):
    """What an argument is; the value is its type in PyTorch's schema language."""

    TENSOR = "Tensor"
    OPTIONAL_TENSOR = "Tensor?"
    TENSOR_LIST = "Tensor[]"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    INT_LIST = "int[]"
    FLOAT_LIST = "float[]"
    OPTIONAL_INT = "int?"
    OPTIONAL_FLOAT = "float?"
    OPTIONAL_BOOL = "bool?"

    @property
    def is_tensor(self) -> bool:
        """Whether the argument is a tensor, an optional tensor or a list of tensors."""
        return self in (Kind.TENSOR, Kind.OPTIONAL_TENSOR, Kind.TENSOR_LIST)


@dataclass(frozen=True)
class TensorType:
    """The declared element type and shape of a tensor; `text` is the annotation, as error messages quote it."""

    element: DType | Generic
    shape: Shape
    text: str

    @property
    def pinned(self) -> DType | None:
        """The one element type of a pinned tensor, or None for a generic one."""
        return self.element if isinstance(self.element, DType) else None

    @property
    def is_floating(self) -> bool:
        """Whether the tensor can hold floating-point numbers."""
        return any(name.startswith(("float", "bfloat")) for name in self.element_names)

    @property
    def element_names(self) -> tuple[str, ...]:
        """The element types that the tensor may have."""
        return (self.element.name,) if isinstance(self.element, DType) else tuple(self.element.allowed)

    @property
    def letter(self) -> str | None:
        """The template parameter of a generic tensor, or None for a pinned one."""
        return self.element.letter if isinstance(self.element, Generic) else None


@dataclass(frozen=True)
class Struct:
    """A parameter of a definition that is a frozen dataclass.

    Its fields are arguments of the schema, by their own names and in their order; a kernel gets a struct of them.
    """

    name: str
    type: type
    fields: tuple[str, ...]
    keyword_only: bool = False

    @property
    def cpp_name(self) -> str:
        """The name of the kernel's struct: the class's, without leading underscores, which C++ reserves."""
        return self.type.__name__.lstrip("_")


@dataclass(frozen=True)
class Parameter:
    """One argument of the schema.

    `tensor` is set for the three tensor kinds; `has_default` tells None from no default. `passes_gradient` names the
    output whose gradient is this argument's too, unchanged. `struct` is set for a field of a dataclass. `choices` are
    the values of a Literal.
    """

    name: str
    kind: Kind
    tensor: TensorType | None = None
    has_default: bool = False
    default: Any = None
    keyword_only: bool = False
    mutated: bool = False
    contiguous: bool = False
    differentiable: bool = False
    passes_gradient: str | None = None
    struct: Struct | None = None
    choices: tuple[Any, ...] = ()

    @property
    def label(self) -> str:
        """What error messages call the argument: its name, behind its dataclass's where it is a field."""
        return f"{self.struct.name}.{self.name}" if self.struct else self.name

    @property
    def tensor_type(self) -> TensorType:
        """`tensor` of a parameter that is known to be one."""
        assert self.tensor is not None
        return self.tensor


@dataclass(frozen=True)
class Output:
    """One result. A `saved` output is for the backward alone; `format_of` names the input whose memory format it takes.

    `needed_by` names a bool argument: where that is False the output is not computed, and all its sizes are 0.
    """

    name: str
    tensor: TensorType
    saved: bool = False
    differentiable: bool = False
    format_of: str | None = None
    needed_by: str | None = None

    @property
    def is_floating(self) -> bool:
        """Whether the output can hold floating-point numbers."""
        return self.tensor.is_floating


@dataclass(frozen=True)
class Signature:
    """Everything about a call of an operator; `dtypes` maps a template parameter to the element types it may be."""

    name: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    dtypes: Mapping[str, tuple[str, ...]]

    @cached_property
    def tensors(self) -> tuple[Parameter, ...]:
        """The parameters that are tensors, optional tensors or lists of tensors."""
        return tuple(parameter for parameter in self.parameters if parameter.kind.is_tensor)

    @cached_property
    def declared(self) -> tuple[Parameter | Struct, ...]:
        """The parameters as the definition has them: each dataclass in place of its fields."""
        return tuple(
            parameter.struct or parameter
            for parameter in self.parameters
            if parameter.struct is None or parameter.name == parameter.struct.fields[0]
        )

    @cached_property
    def structs(self) -> tuple[Struct, ...]:
        """The parameters that are dataclasses."""
        return tuple(item for item in self.declared if isinstance(item, Struct))

    @cached_property
    def pinned(self) -> frozenset[str]:
        """The names of the tensor parameters that have one element type, whatever the others have."""
        return frozenset(parameter.name for parameter in self.tensors if parameter.tensor_type.pinned)

    @cached_property
    def visible_outputs(self) -> tuple[Output, ...]:
        """The outputs that the caller sees."""
        return tuple(output for output in self.outputs if not output.saved)

    @cached_property
    def mutated(self) -> tuple[Parameter, ...]:
        """The parameters that the operator writes to."""
        return tuple(parameter for parameter in self.parameters if parameter.mutated)

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The template parameters in use, T before I."""
        used = {tensor.letter for tensor in self._tensor_types if tensor.letter}
        return tuple(letter for letter in ("T", "I") if letter in used)

    @cached_property
    def group(self) -> str | None:
        """The variadic group of an elementwise operator: some input and every result have it as their whole shape.

        The results are the outputs, or what is written to where there are none.
        """
        results = [output.tensor for output in self.outputs] or [parameter.tensor_type for parameter in self.mutated]
        groups = {tensor.shape.group if tensor.shape.is_group else None for tensor in results}
        if len(groups) != 1 or None in groups:
            return None
        (group,) = groups
        whole = any(
            parameter.kind is Kind.TENSOR and _is_whole_group(parameter, group) for parameter in self.parameters
        )
        return group if whole else None

    @cached_property
    def elementwise(self) -> tuple[Parameter, ...]:
        """The inputs whose whole shape is the elementwise group; empty if the operator is not elementwise.

        Those that are always there come first: the outputs take their strides.
        """
        members = [parameter for parameter in self.tensors if self.group and _is_whole_group(parameter, self.group)]
        return tuple(sorted(members, key=lambda parameter: parameter.kind is not Kind.TENSOR))

    @cached_property
    def data_dependent(self) -> frozenset[str]:
        """The sizes that only a native kernel can know: names that stand in an output and in no input."""
        known = {name for parameter in self.tensors for name in parameter.tensor_type.shape.names}
        known |= {parameter.name for parameter in self.parameters if parameter.kind is Kind.INT}
        return frozenset(name for output in self.outputs for name in output.tensor.shape.names) - known

    @property
    def schema(self) -> str:
        """The schema as torch.library takes it, without the namespace."""
        words = []
        starred = False
        for parameter in self.parameters:
            if parameter.keyword_only and not starred:
                words.append("*")
                starred = True
            words.append(_schema_of(parameter, self.mutated))
        results = ", ".join("Tensor" for _ in self.outputs)
        return f"{self.name}({', '.join(words)}) -> {results if len(self.outputs) == 1 else f'({results})'}"

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    def output(self, name: str) -> Output | None:
        """Return the output of that name, or None."""
        return next((output for output in self.outputs if output.name == name), None)

    def allowed(self, tensor: TensorType) -> tuple[str, ...]:
        """Return the names of the element types that a tensor of the signature may have."""
        if tensor.pinned:
            return (tensor.pinned.name,)
        assert tensor.letter is not None
        return self.dtypes[tensor.letter]

    def combinations(self) -> tuple[tuple[DType, ...], ...]:
        """Return every choice of element types for `letters`, in a fixed order; one empty choice where all is pinned."""
        chosen: list[tuple[DType, ...]] = [()]
        for letter in self.letters:
            chosen = [(*before, DTYPES[name]) for before in chosen for name in self.dtypes[letter]]
        return tuple(chosen)

    @property
    def _tensor_types(self) -> list[TensorType]:
        return [parameter.tensor_type for parameter in self.tensors] + [output.tensor for output in self.outputs]


def _is_whole_group(parameter: Parameter, group: str | None) -> bool:
    shape = parameter.tensor_type.shape if parameter.tensor else None
    return shape is not None and parameter.kind is not Kind.TENSOR_LIST and shape.is_group and shape.group == group


def _schema_of(parameter: Parameter, mutated: tuple[Parameter, ...]) -> str:
    # A SymInt may be a size that torch.compile keeps open; an int would be made a constant of the graph.
    kind = "SymInt" if parameter.kind is Kind.INT else parameter.kind.value
    if parameter.mutated:
        alias = ascii_lowercase[mutated.index(parameter)]
        kind = kind.replace("Tensor", f"Tensor({alias}!)")
    if not parameter.has_default:
        return f"{kind} {parameter.name}"
    return f"{kind} {parameter.name}={_schema_default(parameter.default)}"


def _schema_default(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_schema_default, value))}]"
    return repr(value)
