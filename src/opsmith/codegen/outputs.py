"""Generates the preparation of a view kernel's call: outputs are allocated and inputs laid out as declared."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.checks import check_output_size, size_value
from opsmith.codegen.cpp import dtype_constant
from opsmith.spec.signature import Kind, Output, Signature
from opsmith.spec.sizes import SizeProgram

__all__ = ["allocate_outputs", "lay_out_inputs"]


def allocate_outputs(signature: Signature, sizes: SizeProgram) -> Iterator[str]:
    """Yield the lines that define `sizes_<output>`, `strides_<output>` and `out_<output>` for each output.

    An elementwise operator's `layout` comes first. Inputs must still be as they were given: strides are taken from them.
    """
    if signature.group:
        pointers = ", ".join(f"&arg_{parameter.name}" for parameter in signature.elementwise)
        yield f"  const Layout layout = common_layout({{{pointers}}});"
    for output in signature.outputs:
        yield f"  const Sizes sizes_{output.name} = {_sizes(output, sizes)};"
        shape = output.tensor.shape
        for index, dim in enumerate(shape.dims):
            if dim.expression is not None:
                behind = shape.variadic_index is not None and index > shape.variadic_index
                axis = f"group_{shape.group}.count + {index - 1}" if behind else str(index)
                value = f"sizes_{output.name}.item[{axis}]"
                yield from check_output_size(output, dim.expression, axis, value, signature, sizes)
    for output in signature.outputs:
        yield f"  const Sizes strides_{output.name} = {_strides(output, signature)};"
        dtype = output.tensor.pinned
        element = f"dtype_{output.tensor.letter}" if dtype is None else dtype_constant(dtype)
        arguments = f"device_id, {element}, sizes_{output.name}, strides_{output.name}"
        yield f"  Held out_{output.name} = allocate({arguments});"


def lay_out_inputs(signature: Signature) -> Iterator[str]:
    """Yield the lines that replace inputs by copies where the kernel could not work on them as they are."""
    if signature.group:
        calls = " ".join(f"arg_{parameter.name}.make_contiguous();" for parameter in signature.elementwise)
        yield f"  if (layout == Layout::mixed) {{ {calls} }}"
    for parameter in signature.tensors:
        name, shape = f"arg_{parameter.name}", parameter.tensor_type.shape
        if parameter in signature.elementwise:
            continue
        if parameter.contiguous and parameter.kind is Kind.TENSOR_LIST:
            yield f"  for (Held& item : {name}) item.make_contiguous();"
        elif parameter.contiguous:
            yield f"  {name}.make_contiguous();"
        elif shape.variadic_index is not None:
            yield f"  make_mergeable({name}, {shape.variadic_index}, {shape.rank - shape.variadic_index - 1});"


def _sizes(output: Output, sizes: SizeProgram) -> str:
    shape = output.tensor.shape
    parts = [
        f"group_{dim.group}" if dim.expression is None else size_value(dim.expression, sizes) for dim in shape.dims
    ]
    joined = f"join({', '.join(parts)})"
    if not output.needed_by:
        return joined
    group = f" + group_{shape.group}.count" if shape.variadic_index is not None else ""
    rank = shape.rank - (shape.variadic_index is not None)
    return f"arg_{output.needed_by} ? {joined} : zeros({rank}{group})"


def _strides(output: Output, signature: Signature) -> str:
    name = f"sizes_{output.name}"
    row_major = f"contiguous_strides({name})"
    needed = f"arg_{output.needed_by} && " if output.needed_by else ""
    if signature.group:
        return f"{needed}layout == Layout::dense ? strides_of(arg_{signature.elementwise[0].name}) : {row_major}"
    if output.format_of:
        like = f"strides_like(arg_{output.format_of}, {name})"
        return f"arg_{output.needed_by} ? {like} : {row_major}" if needed else like
    return row_major
