"""Computes the sizes, element types and strides of a call's outputs, as the binding allocates them.

The fake kernel makes its tensors from this, and the results of a Python body are brought into this form, so that an
operator gives the same strides on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ShapeError
from opsmith.runtime.arguments import Bound, check_call, evaluate
from opsmith.runtime.body_results import check_form, check_tensors, results_of
from opsmith.spec.definition import Definition
from opsmith.spec.dtypes import DTYPES
from opsmith.spec.signature import Kind, Output, Signature
from opsmith.spec.sizes import plan_sizes

__all__ = ["OutputForm", "conform", "output_forms", "zero_outputs"]

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class OutputForm:
    """What one output is allocated as; `strides` is None for row-major."""

    output: Output
    sizes: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    strides: tuple[Any, ...] | None = None
    memory_format: torch.memory_format | None = None

    def allocate(self) -> Tensor:
        """Return an uninitialised tensor of this form."""
        if self.strides is not None:
            return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=self.device)
        memory_format = self.memory_format or torch.contiguous_format
        return torch.empty(self.sizes, dtype=self.dtype, device=self.device, memory_format=memory_format)


def output_forms(
    signature: Signature, bound: Bound, unknown_size: Callable[[str], Any] | None = None
) -> tuple[OutputForm, ...]:
    """Return the form of each output of a checked call; raises ShapeError if a size would be negative.

    `unknown_size` gives the sizes that only the kernel knows; it is called once for each.
    """
    asked: dict[str, Any] = {}
    if unknown_size is not None:
        for name in sorted(signature.data_dependent):
            asked[name] = unknown_size(name)
    complete = Bound(bound.arguments, {**bound.sizes, **asked}, bound.groups)
    strides = _elementwise_strides(signature, bound)
    return tuple(_form(signature, output, complete, strides) for output in signature.outputs)


def zero_outputs(signature: Signature, arguments: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return zeros in the form of each output of a call."""
    bound = check_call(signature, plan_sizes(signature), arguments)
    return tuple(form.allocate().zero_() for form in output_forms(signature, bound))


def conform(definition: Definition, results: Any, bound: Bound) -> tuple[Tensor, ...]:
    """Bring what a Python body returned into the declared form; raises DefinitionError if it is something else."""
    signature = definition.signature
    skipped = [_is_skipped(output, bound) for output in signature.outputs]
    # A body may return None for its only output where that is not needed.
    tensors = (None,) if results is None and any(skipped) else results_of(results)
    where = f"{definition.name} ({definition.location})"
    check_tensors(where, tensors, [not left_out for left_out in skipped])
    measured = {name: _measured(definition, name, tensors) for name in sorted(signature.data_dependent)}
    forms = output_forms(signature, bound, measured.__getitem__ if measured else None)
    taken = {
        tensor.untyped_storage()._cdata
        for value in bound.arguments.values()
        for tensor in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(tensor, Tensor)
    }
    return tuple(
        form.allocate() if left_out else _conform_one(where, form, tensor, taken)
        for form, tensor, left_out in zip(forms, tensors, skipped, strict=True)
    )


def _is_skipped(output: Output, bound: Bound) -> bool:
    """Whether the caller does not need the output, which then has no elements."""
    return output.needed_by is not None and not bound.arguments[output.needed_by]


def _form(signature: Signature, output: Output, bound: Bound, strides: tuple[Any, ...] | None) -> OutputForm:
    sizes: list[Any] = []
    if _is_skipped(output, bound):
        groups = sum(len(bound.groups[dim.group or ""]) - 1 for dim in output.tensor.shape.dims if dim.variadic)
        rank = output.tensor.shape.rank + groups
        return OutputForm(output, (0,) * rank, _dtype(signature, output, bound), _anchor(signature, bound).device)
    for dim in output.tensor.shape.dims:
        if dim.expression is None:
            sizes += bound.groups[dim.group or ""]
            continue
        size = evaluate(signature, dim.expression, bound.sizes)
        if isinstance(size, int) and size < 0:
            values = ", ".join(f"{name} = {bound.sizes[name]}" for name in sorted(dim.expression.names))
            raise ShapeError(
                f"{signature.name}(): the output {output.name} would have size {size} in dimension {len(sizes)}: "
                f"{dim.text} with {values}"
            )
        sizes.append(size)
    anchor = _anchor(signature, bound)
    dtype = _dtype(signature, output, bound)
    memory_format = None
    if output.format_of is not None:
        source = bound.arguments[output.format_of]
        channels_last = _CHANNELS_LAST.get(source.dim())
        if (
            channels_last is not None
            and not source.is_contiguous()
            and source.is_contiguous(memory_format=channels_last)
        ):
            memory_format = channels_last
    return OutputForm(output, tuple(sizes), dtype, anchor.device, strides, memory_format)


def _anchor(signature: Signature, bound: Bound) -> Tensor:
    """The tensor whose device is the call's."""
    ordered = sorted(signature.tensors, key=lambda parameter: parameter.kind is not Kind.TENSOR)
    value = bound.arguments[ordered[0].name]
    tensor = value[0] if ordered[0].kind is Kind.TENSOR_LIST else value
    assert isinstance(tensor, Tensor)
    return tensor


def _dtype(signature: Signature, output: Output, bound: Bound) -> torch.dtype:
    if output.tensor.pinned is not None:
        return DTYPES[output.tensor.pinned.name].torch
    for parameter in signature.tensors:
        value = bound.arguments[parameter.name]
        if parameter.tensor_type.letter == output.tensor.letter and value is not None:
            tensor = value[0] if parameter.kind is Kind.TENSOR_LIST else value
            assert isinstance(tensor, Tensor)
            return tensor.dtype
    raise AssertionError("the definition was checked: some input has the output's element type")


def _elementwise_strides(signature: Signature, bound: Bound) -> tuple[Any, ...] | None:
    """Return the strides that the inputs of an elementwise operator share, or None if the outputs are row-major."""
    inputs = [bound.arguments[parameter.name] for parameter in signature.elementwise]
    inputs = [tensor for tensor in inputs if tensor is not None]
    if not inputs or all(tensor.is_contiguous() for tensor in inputs):
        return None
    first = inputs[0]
    for tensor in inputs:
        if tensor.numel() == 0 or not _is_dense(tensor) or not _have_equal_strides(first, tensor):
            return None
    return tuple(first.stride())


def _is_dense(tensor: Tensor) -> bool:
    dims = [(stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    expected = 1
    for stride, size in sorted(dims):
        if stride != expected:
            return False
        expected *= size
    return True


def _have_equal_strides(a: Tensor, b: Tensor) -> bool:
    return all(
        size == 1 or first == second for size, first, second in zip(a.shape, a.stride(), b.stride(), strict=True)
    )


def _measured(definition: Definition, name: str, tensors: Any) -> int:
    """Return a size that only the body knew, read off its results."""
    for output, tensor in zip(definition.signature.outputs, tensors, strict=True):
        for index, dim in enumerate(output.tensor.shape.dims):
            if dim.expression is not None and dim.expression.name == name:
                return int(tensor.shape[output.tensor.shape.axis(index)])
    raise AssertionError("plan_sizes refuses a data-dependent size that is not a plain name")


def _conform_one(where: str, form: OutputForm, tensor: Tensor, taken: set[int]) -> Tensor:
    """Bring one result into its form, in memory that no input and no result before it has; adds it to `taken`."""
    check_form(where, form.output, tensor, form.sizes, form.dtype)
    empty = form.allocate()
    if tensor.stride() != empty.stride() or tensor.untyped_storage()._cdata in taken:
        tensor = empty.copy_(tensor)
    taken.add(tensor.untyped_storage()._cdata)
    return tensor
