"""Checks that results share memory with inputs and each other as the schema says, and never with later results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import element_bytes
from opsmith.checker.calls import accepted, accepts, kernel_outputs, other_numbers, quiet
from opsmith.checker.memory.guard import sheltered
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.same_tensor import wrong_for_one_tensor
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import is_tail
from opsmith.subject.subject import Subject

__all__ = ["aliasing"]

# Calls in which kernels are known to return an argument as it is: nothing to convert, nothing to do.
_GROUPS = ("plain", "scalars", "layouts", "sizes")
_MOST_SIZES = 12
_COPY = "Return a copy (clone), or declare it in the schema: Tensor(a) x -> Tensor(a)."
_KEPT = (
    "Allocate in every call: a buffer kept between calls is overwritten while the caller still holds the first result."
)


def aliasing(context: Context) -> Outcome:
    """Outputs share memory with inputs and each other as the schema says, two calls share none, two inputs may be one."""
    count = 0
    for case in _cases(context):
        context.tell(case)
        with quiet(), sheltered(context.device):
            try:
                found = _shared(context, case)
            except Exception as error:
                # torch.library.custom_op looks for itself, and refuses.
                if "may not alias" not in str(error):
                    continue
                found = ("an output shares memory with an input or another output, which PyTorch rejects", _COPY)
        count += 1
        if found is not None:
            message, hint = found
            return failed(Finding(f"{case.label}: {message}", case, hint), inputs=count)
    with quiet(), sheltered(context.device):
        wrong, compared = wrong_for_one_tensor(context)
    if wrong is not None:
        return failed(wrong, inputs=count + compared)
    return passed(count + compared) if count else not_run("no input is accepted by both the reference and the kernel")


def _cases(context: Context) -> Iterator[Case]:
    sizes = 0
    # What is kept or shared does not depend on the rest after whole vectors.
    for case in accepted(context, *_GROUPS):
        if is_tail(case.label):
            continue
        sizes += case.group == "sizes"
        if case.group != "sizes" or sizes <= _MOST_SIZES:
            yield case


def _shared(context: Context, case: Case) -> tuple[str, str] | None:
    """Return what is shared and must not be, with a hint."""
    subject = context.subject
    values = case.build(context.device)
    outputs = kernel_outputs(subject, values)
    inputs = dict(_inputs(values))
    allowed = _Allowed(subject, case, context.device, len(outputs))
    for index, output in enumerate(outputs):
        for name, tensor in inputs.items():
            if _have_common_storage(output, tensor) and not allowed.with_input(index, name):
                return f"output {index} shares memory with {name}, which the schema does not declare", _COPY
    for one, other in combinations(range(len(outputs)), 2):
        if _overlap(outputs[one], outputs[other]) and not allowed.with_output(one, other):
            return f"outputs {one} and {other} share memory, which the schema does not declare", _COPY
    # As bytes: a copy of truth values has other ones where a kernel has written neither 0 nor 1.
    before = [element_bytes(output).clone() for output in outputs]
    again = kernel_outputs(subject, _of_other_numbers(context, case).build(context.device))
    for index, output in enumerate(outputs):
        if any(_overlap(output, later) for later in again):
            return f"a second call returns the memory of output {index} of the first, which is still in use", _KEPT
        if not torch.equal(element_bytes(output), before[index]):
            return f"output {index} changed when the operator was called again with other inputs", _KEPT
    return None


def _of_other_numbers(context: Context, case: Case) -> Case:
    """Return the case with other numbers, unless those are integers that the reference refuses, such as a divisor of 0."""
    other = other_numbers(case)
    is_of_floats = all(getattr(torch, recipe.dtype).is_floating_point for recipe in case.tensors().values())
    return other if is_of_floats or accepts(context, other) else case


class _Allowed:
    """What a schema allows to share memory; where there is none, what the reference's own results share."""

    def __init__(self, subject: Subject, case: Case, device: str, outputs: int) -> None:
        self._inputs: set[tuple[int, str]] = set()
        self._outputs: set[tuple[int, int]] = set()
        if subject.overload is not None:
            self._read_schema(subject.overload._schema, outputs)
        else:
            self._ask_reference(subject, case.build(device))

    def with_input(self, output: int, name: str) -> bool:
        return (output, name.partition("[")[0]) in self._inputs

    def with_output(self, one: int, other: int) -> bool:
        return (one, other) in self._outputs

    def _read_schema(self, schema: Any, outputs: int) -> None:
        # A list of tensors is one return and several outputs; it is the only return then.
        returns = list(schema.returns)
        if len(returns) == 1:
            returns *= outputs
        sets = [_alias_set(item) for item in returns]
        for index, names in enumerate(sets):
            self._inputs |= {
                (index, argument.name) for argument in schema.arguments if _meet(names, _alias_set(argument))
            }
        self._outputs = {
            (one, other) for one, other in combinations(range(len(sets)), 2) if _meet(sets[one], sets[other])
        }

    def _ask_reference(self, subject: Subject, values: dict[str, Any]) -> None:
        found = subject.results(subject.reference, values)
        for index, output in enumerate(found):
            self._inputs |= {
                (index, name.partition("[")[0])
                for name, tensor in _inputs(values)
                if _have_common_storage(output, tensor)
            }
        self._outputs = {
            (one, other) for one, other in combinations(range(len(found)), 2) if _overlap(found[one], found[other])
        }


def _alias_set(item: Any) -> set[str]:
    """Return the names of what a schema's item may share memory with: "*" is anything that is named at all."""
    if item.alias_info is None:
        return set()
    # Of a list, the names belong to its elements, and are not told.
    return {str(name) for name in (*item.alias_info.before_set, *item.alias_info.after_set)} or {"*"}


def _meet(one: set[str], other: set[str]) -> bool:
    return bool(one & other) or ("*" in one and bool(other)) or ("*" in other and bool(one))


def _inputs(values: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in values.items():
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, list):
            yield from ((f"{name}[{n}]", item) for n, item in enumerate(value) if isinstance(item, Tensor))


def _have_common_storage(one: Tensor, other: Tensor) -> bool:
    """Whether the memory behind two tensors overlaps, elements or not."""
    (start, end), (other_start, other_end) = _memory(one), _memory(other)
    return start < other_end and other_start < end


def _memory(tensor: Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return (start, start + storage.nbytes()) if start and tensor.numel() else (0, 0)


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have an element's memory in common."""
    if one.numel() == 0 or other.numel() == 0 or not _have_common_storage(one, other):
        return False
    first, second = _bytes_of(one), _bytes_of(other)
    return bool(torch.isin(first, second).any())


def _bytes_of(tensor: Tensor) -> Tensor:
    """Return the address of the first byte of each element."""
    at = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        at = at.unsqueeze(-1) + torch.arange(size) * stride
    return tensor.data_ptr() + at.reshape(-1) * tensor.element_size()
