"""Batches an operator that has no dimension for samples: torch.vmap of its body, or a call for each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack

from opsmith.errors import ShapeError
from opsmith.runtime.arguments import check_call
from opsmith.runtime.autocast import without_autocast
from opsmith.runtime.body_results import check_form, check_tensors, results_of
from opsmith.runtime.differentiate import map_tensors, tensors_of
from opsmith.runtime.outputs import OutputForm, output_forms
from opsmith.runtime.vmap_samples import BatchedCall
from opsmith.spec.definition import Definition
from opsmith.spec.signature import Parameter
from opsmith.spec.sizes import SizeProgram

__all__ = ["call_body", "call_each", "sample_forms"]

# What a kernel for FuncTorchBatched finds excluded, and code outside of it does not. ZeroTensor is among it:
# forward-mode AD makes tensors without memory, and without that key an operator would read from them.
_HIDDEN = (
    "FuncTorchDynamicLayerFrontMode",
    "FuncTorchDynamicLayerBackMode",
    "FuncTorchBatched",
    "FuncTorchGradWrapper",
    "Functionalize",
    "Conjugate",
    "Negative",
    "ZeroTensor",
    "PythonTLSSnapshot",
    "AutogradFunctionality",
    "AutogradOther",
    "AutogradNestedTensor",
    "ADInplaceOrView",
)


def sample_forms(call: BatchedCall, sizes: SizeProgram) -> tuple[OutputForm, ...] | None:
    """Check one sample's arguments; return what its outputs look like, or None if only the kernel knows their sizes.

    Raises ShapeError, DtypeError, ... in terms of what the caller of the mapped function sees.
    """
    signature = call.definition.signature
    arguments = dict(call.arguments)
    for parameter in signature.tensors:
        arguments[parameter.name] = _for_each(_shape_of, call, parameter)
    bound = check_call(signature, sizes, arguments)
    return None if signature.data_dependent else output_forms(signature, bound)


def _shape_of(tensor: Tensor, dim: int | None) -> Tensor:
    """Return one sample of a tensor as a tensor without memory."""
    sizes, strides = list(tensor.shape), list(tensor.stride())
    if dim is not None:
        del sizes[dim], strides[dim]
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")


def _select(tensor: Tensor, dim: int | None, number: int) -> Tensor:
    """Return one sample of a tensor, a view of it."""
    return tensor if dim is None else tensor.select(dim, number)


def call_body(call: BatchedCall, forms: Sequence[OutputForm] | None) -> tuple[Tensor, ...]:
    """Return the outputs of all samples, stacked in front, by torch.vmap of the body."""
    definition = call.definition
    names = list(call.arguments)

    def one_sample(*values: Any) -> tuple[Tensor, ...]:
        arguments = dict(zip(names, values, strict=True))
        found = _derived_gradients(definition, arguments) if definition.is_derived else definition.body(**arguments)
        return _checked(call, found, values, forms)

    with _outside(), without_autocast():
        in_dims = tuple(call.dims.get(name) for name in names)
        results = torch.vmap(one_sample, in_dims, 0, call.randomness)(*call.arguments.values())
        return _in_own_memory(results, [tensor for value in call.arguments.values() for tensor in tensors_of(value)])


def call_each(call: BatchedCall, forms: Sequence[OutputForm] | None) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Call the operator for one sample after the other; return the outputs, stacked in front."""
    outputs = call.definition.signature.outputs
    if call.size == 0 and outputs:
        if forms is None:
            raise ShapeError(f"{call.name}(): only the kernel knows the sizes of its outputs, and vmap has no sample")
        device = tensors_of(call.arguments[call.batched[0].name])[0].device
        return tuple(torch.empty((0, *f.sizes), dtype=f.dtype, device=device) for f in forms), (0,) * len(forms)
    each = []
    for number in range(call.size):
        select = partial(_select, number=number)
        each.append(call.run({parameter.name: _for_each(select, call, parameter) for parameter in call.batched}))
    stacked = []
    for output, results in zip(outputs, zip(*each, strict=True), strict=True):
        if any(result.shape != results[0].shape for result in results):
            sizes = ", ".join(str(tuple(result.shape)) for result in results[:3])
            raise ShapeError(
                f"{call.name}(): the samples of torch.vmap give outputs {output.name} of different sizes ({sizes}, "
                "...), which one tensor cannot hold"
            )
        stacked.append(torch.stack(results))
    return tuple(stacked), (0,) * len(stacked)


def _for_each(function: Callable[[Tensor, int | None], Tensor], call: BatchedCall, parameter: Parameter) -> Any:
    """Return an argument with a function's result for each tensor, which is given the tensor's dimension of samples."""
    dims = iter(call.dims_of(parameter))
    return map_tensors(lambda tensor: function(tensor, next(dims)), call.arguments[parameter.name])


def _checked(
    call: BatchedCall, found: Any, values: Sequence[Any], forms: Sequence[OutputForm] | None
) -> tuple[Tensor, ...]:
    """Return what a body returned as a tuple; raises DefinitionError if it is not what the definition says."""
    outputs = call.definition.signature.outputs
    where = f"{call.name} ({call.definition.location})"
    tensors = (None,) if found is None and len(outputs) == 1 else results_of(found)
    # What is not needed has no elements; what the result does not depend on has the gradient zero.
    may_lack = [
        forms is not None and (call.is_skipped(output) or (call.definition.is_derived and tensor is None))
        for output, tensor in zip(outputs, tensors, strict=False)
    ]
    check_tensors(where, tensors, [not may for may in may_lack])
    if forms is None:
        return tuple(tensors)
    checked = []
    for output, tensor, form, lacks in zip(outputs, tensors, forms, may_lack, strict=True):
        if lacks:
            anchor = next(item for value in values for item in tensors_of(value))
            checked.append(anchor.new_zeros(form.sizes, dtype=form.dtype))
        else:
            check_form(where, output, tensor, form.sizes, form.dtype)
            checked.append(tensor)
    return tuple(checked)


def _derived_gradients(definition: Definition, arguments: Mapping[str, Any]) -> list[Tensor | None]:
    """Return the gradients of the forward's body by torch.func, which works under vmap where autograd.grad does not."""
    forward = definition.forward
    assert forward is not None
    outputs = definition.signature.outputs
    names = [output.name.removeprefix("grad_") for output in outputs]
    needed = [output.needed_by is None or arguments[output.needed_by] for output in outputs]
    wanted = [name for name, need in zip(names, needed, strict=True) if need and arguments[name] is not None]
    given = [arguments.get(f"grad_{output.name}") for output in forward.signature.outputs]

    def differentiable(*tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = {parameter.name: arguments[parameter.name] for parameter in forward.signature.parameters}
        results = forward.body(**{**inputs, **dict(zip(wanted, tensors, strict=True))})
        results = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(result for result, grad in zip(results, given, strict=True) if grad is not None)

    gradients: dict[str, Tensor] = {}
    if wanted and any(grad is not None for grad in given):
        pullback = torch.func.vjp(differentiable, *[arguments[name] for name in wanted])[1]
        gradients = dict(zip(wanted, pullback(tuple(grad for grad in given if grad is not None)), strict=True))
    return [gradients.get(name) for name in names]


@contextmanager
def _outside() -> Iterator[None]:
    """Leave the transform that is being worked on, as if the code were called outside of its vmap.

    Inside of a kernel for FuncTorchBatched the dispatcher is set up for one operator of the next transform; a transform
    of one's own needs the state in which the user's code runs.
    """
    with temporarily_pop_interpreter_stack():
        excluded = torch._C._dispatch_tls_local_exclude_set()
        for key in _HIDDEN:
            excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
        included = torch._C._dispatch_tls_local_include_set().remove(torch._C.DispatchKey.FuncTorchVmapMode)
        with torch._C._ForceDispatchKeyGuard(included, excluded):
            yield


def _in_own_memory(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the results with a copy of each whose samples share memory, with an input, another result or each other."""
    taken = {_memory_of(tensor) for tensor in inputs}
    own = []
    for result in results:
        memory = _memory_of(result)
        is_shared = memory is None or memory in taken or (result.stride(0) == 0 and result.shape[0] > 1)
        own.append(result.clone() if is_shared else result)
        taken.add(memory)
    return tuple(own)


def _memory_of(tensor: Tensor) -> int | None:
    """Return what identifies a tensor's memory, below every transform; None if it cannot be told."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None
