"""Describes an operator that is checked or timed: its reference, its inputs, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.runtime.edits import warn_of_edits
from opsmith.runtime.operator import Operator
from opsmith.runtime.structs import with_dataclasses
from opsmith.spec.signature import Output, Signature
from opsmith.subject.callables import (
    keyword_only_of,
    overload_of,
    parameters_of,
    refuse_other_names,
    signature_of,
)
from opsmith.subject.case import Case
from opsmith.subject.devices import devices_here, wait_for_gpu
from opsmith.subject.examples import as_case, completed, dtypes_of, flattened, labelled, numbers_of
from opsmith.subject.scalar_values import named_values
from opsmith.subject.space import IndexBound, Space
from opsmith.subject.suite import MOST_ELEMENTS, Suite

__all__ = ["Subject", "subject_of"]


@dataclass(frozen=True)
class Subject:
    """An operator under check.

    `call` is what users call. `kernel` is the operator as the dispatcher has it, whose results include outputs for the
    backward alone; it is `call` where PyTorch knows no operator of that kind. `reference` is plain PyTorch and returns
    what `kernel` does. `keyword_only` are the parameters that go by name, `mutated` the arguments it may write to,
    `differentiable` those with a gradient.
    """

    name: str
    call: Callable[..., Any]
    kernel: Callable[..., Any]
    reference: Callable[..., Any]
    parameters: tuple[str, ...]
    devices: tuple[str, ...]
    dtypes: tuple[Mapping[str, str], ...]
    signature: Signature | None = None
    overload: Any = None
    operator: Operator | None = None
    keyword_only: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    differentiable: tuple[str, ...] = ()
    differentiable_outputs: tuple[int, ...] | None = None
    examples: tuple[Case, ...] = ()
    module: str | None = None
    seed: int = 0
    notes: tuple[str, ...] = field(default=())
    # Lines that define the operator where it is known by its name in `torch.ops` alone: "import torchvision".
    imports: tuple[str, ...] = ()
    # No generated input has more.
    most_elements: int = MOST_ELEMENTS
    # Sizes that are not tried, by their cases' labels: the reference is slow there.
    left_out: frozenset[str] = frozenset()
    # Results whose last dimension has both parts of complex numbers: an error is measured against the larger part.
    paired: Collection[int] = ()
    # What the indices in integer tensors count (see `index_bounds`).
    index_bounds: Mapping[str, IndexBound] = field(default_factory=dict)
    # Between which numbers those of integer tensors lie, where not all of their type are taken.
    integers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def suite(self) -> Suite:
        """The calls to make."""
        space = None
        if self.signature is not None:
            body = self.operator.definition.body if self.operator is not None else self.reference
            named = named_values(body, self.parameters)
            space = Space(self.signature, named, self.index_bounds, numbers_of(self.examples), self.integers)
        return Suite(space, self.examples, self.seed, self.most_elements, mutated=self.mutated, left_out=self.left_out)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call by position; missing ones at the end have their defaults."""
        return [values[name] for name in self.parameters if name in values and name not in self.keyword_only]

    def keyword_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call that go by name alone."""
        return {name: values[name] for name in self.keyword_only if name in values}

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs that are declared; () without a signature."""
        return self.signature.outputs if self.signature is not None else ()

    def kernel_results(self, values: Mapping[str, Any]) -> list[Tensor]:
        """Call the kernel, as `results` does, when a GPU has nothing left to do.

        A kernel that does not wait for PyTorch's stream would otherwise be wrong anywhere, by chance; the property that
        asks about streams makes inputs that arrive late.
        """
        wait_for_gpu()
        return self.results(self.kernel, values)

    def results(self, function: Callable[..., Any], values: Mapping[str, Any]) -> list[Tensor]:
        """Call the kernel or the reference; return its tensors, and after them the arguments that it writes to.

        An output that the call leaves out is an empty tensor, whatever stands in its place.
        """
        found = function(*self.arguments(values), **self.keyword_arguments(values))
        listed = list(found) if isinstance(found, tuple | list) else [] if found is None else [found]
        outputs = self.outputs
        if len(listed) == len(outputs):
            listed = [
                _nothing_of(item) if one.needed_by is not None and not values.get(one.needed_by, False) else item
                for one, item in zip(outputs, listed, strict=True)
            ]
        return [*(item for item in listed if isinstance(item, Tensor)), *(values[name] for name in self.mutated)]


def _nothing_of(item: Any) -> Tensor:
    """Return an empty tensor in place of a result, of one sample where this runs under torch.vmap."""
    if not isinstance(item, Tensor):
        return torch.empty(0, dtype=torch.bool)
    return item.flatten()[:0].to(torch.bool)


def subject_of(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = None,
    only_given: bool = False,
    devices: Iterable[str] | None = None,
    seed: int = 0,
) -> Subject:
    """Return the subject for an operator of opsmith's, one of `torch.ops`, or any function with a reference.

    `examples` are calls, each a tuple of positional arguments or a mapping by name, or a mapping from what each call is
    named to the call; where the reference's annotations are jaxtyping's as in a definition, none are needed. They come
    behind the definition's own, or, where there are some and `only_given` is set, in place of them. Raises
    ArgumentError if there is nothing to compare with or to call with.
    """
    here = devices_here()  # before the operator is loaded
    _refuse_uncallable(op, reference)
    given = labelled(examples if examples is not None else ())
    if isinstance(op, Operator):
        subject = _of_operator(op, seed)
        warn_of_edits(op.definition.module)
        declared = op.definition.rules.examples
        if declared is not None and not (given and only_given):
            given = [*labelled(declared), *given]
        if reference is not None:
            subject = replace(subject, reference=_taking_fields(reference, op.definition.signature))
    else:
        subject = _of_callable(op, reference, seed)
    signature = subject.signature
    cases = tuple(
        replace(
            completed(as_case(flattened(example, signature), subject.parameters, signature), signature), label=label
        )
        for label, example in given
    )
    if subject.signature is None and not cases:
        raise ArgumentError(
            f"{subject.name}: there are no inputs to call it with. Pass examples=, a function that returns tuples of "
            "arguments, or annotate the reference like a definition: Float[Tensor, 'B N']"
        )
    available = tuple(device for device in here if device in subject.devices)
    wanted = available if devices is None else tuple(devices)
    if missing := [device for device in wanted if device not in available]:
        reason = "" if "cuda" in here or "cuda" not in missing else ": torch does not see a GPU"
        raise ArgumentError(
            f"{subject.name} cannot be checked on {', '.join(missing)}, only on {', '.join(available)}{reason}"
        )
    dtypes = subject.dtypes or dtypes_of(cases)
    return replace(subject, examples=cases, devices=wanted, dtypes=dtypes)


def _taking_fields(reference: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Return a given reference as a function of the schema's arguments, where it takes the definition's dataclasses."""
    structs = {struct.name for struct in signature.structs}
    takes_structs = bool(structs) and not structs.isdisjoint(parameters_of(reference))
    return with_dataclasses(reference, signature) if takes_structs else reference


def _of_operator(op: Operator, seed: int) -> Subject:
    definition = op.definition
    signature = definition.signature
    letters = signature.letters
    combinations = [
        dict(zip(letters, (dtype.name for dtype in choice), strict=True)) for choice in signature.combinations()
    ]
    return Subject(
        name=f"{definition.namespace}.{definition.name}",
        call=op,
        kernel=op.torch_op,
        reference=op.reference,
        parameters=tuple(parameter.name for parameter in signature.parameters),
        devices=tuple(dict.fromkeys(("cpu", *definition.kernels))),
        dtypes=tuple(combinations),
        signature=signature,
        overload=op.torch_op,
        operator=op,
        keyword_only=tuple(parameter.name for parameter in signature.parameters if parameter.keyword_only),
        mutated=tuple(parameter.name for parameter in signature.mutated),
        differentiable=() if signature.mutated else tuple(p.name for p in signature.parameters if p.differentiable),
        differentiable_outputs=tuple(index for index, output in enumerate(signature.outputs) if output.differentiable),
        module=definition.module,
        seed=seed,
    )


def _of_callable(op: Any, reference: Callable[..., Any] | None, seed: int) -> Subject:
    overload = overload_of(op)
    name = str(overload).removesuffix(".default") if overload is not None else getattr(op, "__qualname__", repr(op))
    if reference is None:
        raise ArgumentError(f"{name} has no reference to compare it with: pass reference=, a function in plain PyTorch")
    schema = overload._schema if overload is not None else None
    if schema is not None:
        parameters = tuple(argument.name for argument in schema.arguments)
        mutated = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    else:
        parameters = parameters_of(reference, op)
        mutated = ()
    signature = signature_of(reference, mutated)
    if schema is not None and signature is not None:
        refuse_other_names(name, schema, signature)
    dtypes: tuple[Mapping[str, str], ...] = ()
    if signature is not None:
        letters = signature.letters
        combinations = signature.combinations()
        dtypes = tuple(dict(zip(letters, (d.name for d in choice), strict=True)) for choice in combinations)
    return Subject(
        name=name.replace("::", "."),
        call=op,
        kernel=overload if overload is not None else op,
        reference=reference,
        parameters=parameters,
        devices=("cpu", "cuda"),
        dtypes=dtypes,
        signature=signature,
        overload=overload,
        keyword_only=keyword_only_of(schema, reference),
        mutated=mutated,
        differentiable=tuple(p.name for p in signature.parameters if p.differentiable) if signature else parameters,
        module=getattr(op, "__module__", None),
        seed=seed,
    )


def _refuse_uncallable(op: Any, reference: Any) -> None:
    if not callable(op):
        raise ArgumentError(f"{op!r} is not an operator: pass the operator itself, such as torch.ops.namespace.name")
    if reference is not None and not callable(reference):
        raise ArgumentError(f"the reference is {reference!r}; pass a function in plain PyTorch")
