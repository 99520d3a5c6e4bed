"""A frozen dataclass as a parameter: its fields are the schema's arguments, and what no field can be is refused."""

from __future__ import annotations  # as a user's module may: the fields' annotations are strings

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.gradient import Argument, wire_backward
from opsmith.spec.signature import Kind, Signature

Row = Float[Tensor, "N"]


@dataclass(frozen=True)
class Window:
    """Every kind of field."""

    MOST: ClassVar[int] = 3

    size: int
    step: int = 1
    gain: float = 2
    is_periodic: bool = False
    name: str = "hann"
    pad: int | None = None
    limit: float | None = None
    is_causal: bool | None = None

    @property
    def margin(self) -> int:
        return self.size - 1


@dataclass(frozen=True)
class Scale:
    factor: float = 0.5


def windowed(x: Row, window: Window, flip: bool = False) -> Float[Tensor, "N+size"]: ...
def two(x: Row, window: Window, scale: Scale) -> Row: ...
def followed(x: Row, window: Window, y: Row) -> Row: ...
def keyword_only(x: Row, *, window: Window, flip: bool) -> Row: ...
def with_instance(x: Row, window: Window = Window(7, gain=3.0)) -> Row: ...


def read(function: Callable[..., Any], *, forward: Signature | None = None, **choices: Any) -> Signature:
    return read_signature(function, Choices(**choices), forward=forward)


def test_fields_are_arguments_by_their_own_names() -> None:
    signature = read(windowed)
    assert signature.schema == (
        "windowed(Tensor x, SymInt size, SymInt step=1, float gain=2.0, bool is_periodic=False, "
        'str name="hann", int? pad=None, float? limit=None, bool? is_causal=None, bool flip=False) -> Tensor'
    )
    assert [argument.name for argument in torch._C.parse_schema(signature.schema).arguments[:3]] == [
        "x",
        "size",
        "step",
    ]
    assert [item.name for item in signature.declared] == ["x", "window", "flip"]
    (struct,) = signature.structs
    assert struct.type is Window
    assert struct.fields[:2] == ("size", "step")
    assert signature.parameters[1].label == "window.size"
    assert signature.parameters[-1].label == "flip"


def test_a_field_gives_a_size() -> None:
    assert read(windowed).data_dependent == frozenset()


def test_two_dataclasses_stand_side_by_side() -> None:
    signature = read(two)
    assert [struct.name for struct in signature.structs] == ["window", "scale"]
    assert signature.schema.endswith("bool? is_causal=None, float factor=0.5) -> Tensor")


def test_defaults_in_front_of_an_argument_without_one_are_left_to_the_class() -> None:
    schema = read(followed).schema
    assert "=" not in schema
    torch._C.parse_schema(schema)


def test_a_keyword_only_dataclass_has_keyword_only_fields_and_all_its_defaults() -> None:
    signature = read(keyword_only)
    assert all(parameter.keyword_only for parameter in signature.parameters[1:])
    assert signature.schema.startswith("keyword_only(Tensor x, *, SymInt size, SymInt step=1, float gain=2.0,")


def test_an_instance_as_default_gives_every_field_its_value() -> None:
    for forward in (None, read(two)):
        schema = read(with_instance, forward=forward).schema
        assert schema.startswith("with_instance(Tensor x, SymInt size=7, SymInt step=1, float gain=3.0,")


def test_a_backward_has_no_defaults_of_the_class() -> None:
    assert "=" not in read(two, forward=read(two)).schema


def test_a_backward_is_given_fields_by_name_whatever_holds_them() -> None:
    forward = read(two, outputs=("y",))

    def same(grad_y: Row, x: Row, window: Window, scale: Scale) -> Row: ...
    def some(grad_y: Row, factor: float, step: int) -> Row: ...
    def other(grad_y: Row, again: Scale) -> Row: ...

    fields = tuple(Argument("input", index) for index in range(1, 10))
    assert wire_backward(forward, read(same, outputs=("grad_x",))).arguments[2:] == fields
    assert wire_backward(forward, read(some, outputs=("grad_x",))).arguments[1:] == (fields[8], fields[1])
    assert wire_backward(forward, read(other, outputs=("grad_x",))).arguments[1:] == (fields[8],)


@dataclass
class Mutable:
    size: int


@dataclass(frozen=True)
class Empty:
    MOST: ClassVar[int] = 3


@dataclass(frozen=True)
class WithTensor:
    weight: Tensor


@dataclass(frozen=True)
class WithTypedTensor:
    weight: Float[Tensor, "N"]


@dataclass(frozen=True)
class WithList:
    sizes: list[int]


@dataclass(frozen=True)
class Nested:
    scale: Scale


@dataclass(frozen=True)
class WithDictionary:
    sizes: dict[str, int]


@dataclass(frozen=True)
class WithOptionalText:
    name: str | None


@dataclass(frozen=True)
class Unresolved:
    size: Int  # noqa: F821


@dataclass(frozen=True)
class WithInitVar:
    size: int
    seed: InitVar[int]


@dataclass(frozen=True)
class Derived:
    size: int
    area: int = field(init=False, default=0)


@dataclass(frozen=True)
class WithFactory:
    size: int = field(default_factory=int)


@dataclass(frozen=True)
class WrongDefault:
    size: int = 1.5


@dataclass(frozen=True)
class InfiniteDefault:
    limit: float = float("inf")


@dataclass(frozen=True)
class TakesX:
    x: int


@dataclass(frozen=True)
class TakesItself:
    shape: int


@dataclass(frozen=True)
class TakesOut:
    out: int


def mutable(x: Row, shape: Mutable) -> Row: ...
def empty(x: Row, shape: Empty) -> Row: ...
def tensor(x: Row, shape: WithTensor) -> Row: ...
def typed_tensor(x: Row, shape: WithTypedTensor) -> Row: ...
def numbers(x: Row, shape: WithList) -> Row: ...
def nested(x: Row, shape: Nested) -> Row: ...
def dictionary(x: Row, shape: WithDictionary) -> Row: ...
def optional_text(x: Row, shape: WithOptionalText) -> Row: ...
def unresolved(x: Row, shape: Unresolved) -> Row: ...
def init_var(x: Row, shape: WithInitVar) -> Row: ...
def derived(x: Row, shape: Derived) -> Row: ...
def factory(x: Row, shape: WithFactory) -> Row: ...
def wrong_default(x: Row, shape: WrongDefault) -> Row: ...
def infinite_default(x: Row, shape: InfiniteDefault) -> Row: ...
def none_as_default(x: Row, shape: Scale = None) -> Row: ...
def optional(x: Row, shape: Scale | None) -> Row: ...
def several(x: Row, shape: list[Scale]) -> Row: ...
def takes_x(x: Row, shape: TakesX) -> Row: ...
def takes_itself(x: Row, shape: TakesItself) -> Row: ...
def takes_out(x: Row, shape: TakesOut) -> Row: ...
def twice(x: Row, first: Scale, second: Scale) -> Row: ...
def only_numbers(shape: Scale) -> Row: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (mutable, "the argument shape is the dataclass Mutable, which is not frozen"),
        (empty, "the argument shape: Empty has no fields"),
        (tensor, "the field WithTensor.weight is annotated Tensor; a field can be int, float, bool, str, int | None"),
        (typed_tensor, 'the field WithTypedTensor.weight is annotated Float[Tensor, "N"]; a field can be int, float'),
        (numbers, "the field WithList.sizes is annotated list[int]; a field can be int, float"),
        (nested, "the field Nested.scale is annotated Scale; a field can be int, float"),
        (dictionary, "the field WithDictionary.sizes is annotated dict[str, int]; a field can be int, float"),
        (optional_text, "the field WithOptionalText.name is annotated str | None; a field can be int, float"),
        (unresolved, "the argument shape: an annotation of Unresolved cannot be evaluated: name 'Int' is not defined"),
        (init_var, "the argument shape: WithInitVar.seed is an InitVar, which an instance does not keep"),
        (derived, "the field Derived.area is not an argument of the class (init=False)"),
        (factory, "the field WithFactory.size has a default_factory; give it a default"),
        (wrong_default, "the field WrongDefault.size is int and cannot have the default 1.5"),
        (
            infinite_default,
            "the field InfiniteDefault.limit is float and cannot have the default inf; use the default None",
        ),
        (none_as_default, "the argument shape is Scale and cannot have the default None; give it an instance"),
        (
            optional,
            "the argument shape is an optional or repeated dataclass",
        ),
        (several, "Annotate it Scale; the fields can be optional and can have defaults"),
        (takes_x, "the field TakesX.x has the name of another argument"),
        (takes_itself, "the field TakesItself.shape has the name of another argument"),
        (takes_out, "the output name 'out' is already that of an argument; choose names with outputs="),
        (twice, "the field Scale.factor has the name of another argument, and the schema uses the fields' own"),
        (only_numbers, "no argument is a required tensor"),
    ],
)
def test_what_cannot_be_a_struct_is_refused_with_the_reason(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        read(function)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{function.__name__}: ")


@pytest.mark.parametrize("function", [tensor, typed_tensor, numbers, nested])
def test_what_can_be_a_parameter_but_no_field_is_told_so(function: Callable[..., Any]) -> None:
    with pytest.raises(DefinitionError, match=r"make it a separate parameter$"):
        read(function)


def test_kinds_of_fields() -> None:
    assert [parameter.kind for parameter in read(windowed).parameters[1:9]] == [
        *(Kind.INT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.STR),
        *(Kind.OPTIONAL_INT, Kind.OPTIONAL_FLOAT, Kind.OPTIONAL_BOOL),
    ]
