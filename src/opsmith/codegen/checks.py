"""Generates a call's checks of devices, ranks, element types and sizes from the size program."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.cpp import dtype_constant
from opsmith.spec.dims import Expression
from opsmith.spec.dtypes import DTYPES
from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Kind, Output, Parameter, Signature, TensorType
from opsmith.spec.sizes import BindGroup, BindSize, CheckGroup, CheckSize, SizeProgram, SolveSize, Step

__all__ = ["check_arguments", "check_output_size", "check_output_sizes", "check_results", "size_value"]


def check_arguments(signature: Signature, sizes: SizeProgram) -> Iterator[str]:
    """Yield the lines that check the arguments and define `device_id`, `dtype_<letter>`, `size_<name>`, `group_<name>`."""
    anchor = _anchor(signature)
    for parameter in signature.tensors:
        if parameter.kind is Kind.TENSOR_LIST and _needs_first(parameter, signature, sizes):
            name = parameter.name
            yield f'  if (arg_{name}.count() == 0) op.refuse_empty_list("{name}");'
    yield f"  const DeviceId device_id = {_one(anchor)}.device;"
    for parameter in signature.tensors:
        if parameter is not anchor:
            yield from _each(parameter, _check_place(parameter.name, _item(parameter), anchor.name))
    for parameter in signature.tensors:
        yield from _each(parameter, _check_rank(parameter.name, _item(parameter), parameter.tensor_type))
    yield from _check_dtypes(signature)
    for step in sizes.steps:
        yield from _step(step, sizes)
    for parameter, steps in sizes.optional:
        if steps:
            yield f"  if (arg_{parameter.name}) {{"
            for step in steps:
                yield from ("  " + line for line in _step(step, sizes))
            yield "  }"
    for parameter in signature.mutated:
        refusal = f'op.refuse_expanded("{parameter.name}");'
        yield from _each(parameter, (f"is_expanded({_item(parameter)})", refusal))


def check_output_sizes(signature: Signature, sizes: SizeProgram) -> Iterator[str]:
    """Yield the lines that refuse a call whose outputs would have a negative size, before they are there."""
    for output in signature.outputs:
        shape = output.tensor.shape
        for index, dim in enumerate(shape.dims):
            if dim.expression is not None:
                behind = shape.variadic_index is not None and index > shape.variadic_index
                axis = f"group_{shape.group}.count + {index - 1}" if behind else str(index)
                value = size_value(dim.expression, sizes)
                for line in check_output_size(output, dim.expression, axis, value, signature, sizes):
                    yield f"  if (arg_{output.needed_by}) {{ {line.strip()} }}" if output.needed_by else line


def check_output_size(
    output: Output, expression: Expression, axis: str, value: str, signature: Signature, sizes: SizeProgram
) -> Iterator[str]:
    """Yield the line that refuses a negative size, unless the expression can have none: a tensor's own size never is."""
    arguments = {parameter.name for parameter in signature.parameters if parameter.kind is Kind.INT}
    if expression.constant is not None or (expression.name is not None and expression.name not in arguments):
        return
    names = _named_values(expression, sizes)
    refusal = f'op.refuse_output_size("{output.name}", {axis}, size, "{expression.text}", {names});'
    yield f"  if (const int64_t size = {value}; size < 0) {refusal}"


def check_results(output: Output, signature: Signature, sizes: SizeProgram, found: dict[str, str]) -> Iterator[str]:
    """Yield the lines that hold what a native kernel returned, as `out_<name>`, against what the definition declares.

    `found` has the sizes that only the kernel knew, and the output that each was read off; new ones are added to it.
    """
    name, shape, text = f"out_{output.name}", output.tensor.shape, f"the output {output.name}"
    checks: list[_Check | None] = [_check_place(text, name, "the first input")]
    checks.append(_check_rank(text, name, output.tensor))
    if output.tensor.letter:
        checks.append(_check_same_dtype(text, name, "the inputs", output.tensor.letter))
    else:
        checks.append(_check_allowed(text, name, output.tensor, signature))
    yield from (f"    if ({check[0]}) {check[1]}" for check in checks if check is not None)
    indent = "    "
    if output.needed_by:
        group = f" + group_{shape.group}.count" if shape.variadic_index is not None else ""
        zeros = f"zeros({shape.rank - (shape.variadic_index is not None)}{group})"
        refusal = f'op.refuse_unneeded("{text}", {name}, {zeros}, "{output.needed_by}");'
        yield f"    if (!arg_{output.needed_by}) {{"
        yield f"      if (!has_group({name}, 0, 0, {zeros})) {refusal}"
        yield "    } else {"
        indent += "  "
    yield from (f"{indent}{line}" for line in _result_sizes(output, signature, sizes, found))
    if output.needed_by:
        yield "    }"


def _result_sizes(output: Output, signature: Signature, sizes: SizeProgram, found: dict[str, str]) -> Iterator[str]:
    name, shape, text = f"out_{output.name}", output.tensor.shape, f"the output {output.name}"
    if shape.variadic_index is not None:
        yield _check_group(text, name, shape, shape.group or "", sizes)
    for index, dim in enumerate(shape.dims):
        if dim.expression is None:
            continue
        unknown = dim.expression.name if dim.expression.name in signature.data_dependent else None
        if unknown is not None and unknown not in found:
            found[unknown] = output.name
            yield f"[[maybe_unused]] const int64_t size_{unknown} = {name}.size({shape.axis(index)});"
        else:
            yield _check_size(text, name, shape.axis(index), dim.expression, sizes)


def _named_values(expression: Expression, sizes: SizeProgram) -> str:
    """Return the C++ list of an expression's names with their values and sources, for the end of a message."""
    spelled = _spellings(expression, sizes)
    words = [f'{{"{name}", {spelled[name]}, "{sizes.source.get(name, "here")}"}}' for name in sorted(expression.names)]
    return f"{{{', '.join(words)}}}"


def _anchor(signature: Signature) -> Parameter:
    """The tensor whose device the others are compared with: the first that is always there."""
    required = [parameter for parameter in signature.tensors if parameter.kind is Kind.TENSOR]
    return (required or [p for p in signature.tensors if p.kind is Kind.TENSOR_LIST])[0]


def _one(parameter: Parameter) -> str:
    return f"arg_{parameter.name}.first()" if parameter.kind is Kind.TENSOR_LIST else f"arg_{parameter.name}"


def _needs_first(parameter: Parameter, signature: Signature, sizes: SizeProgram) -> bool:
    letters = {p.tensor_type.letter for p in signature.tensors if p.kind is Kind.TENSOR}
    binds = any(isinstance(step, (BindSize, SolveSize)) and step.parameter is parameter for step in sizes.steps)
    return binds or parameter is _anchor(signature) or parameter.tensor_type.letter not in {*letters, None}


# What is refused and how: a condition and a statement.
_Check = tuple[str, str]


def _item(parameter: Parameter) -> str:
    """What stands for the tensor in a check that `_each` makes: a list has several."""
    return "item" if parameter.kind is Kind.TENSOR_LIST else f"arg_{parameter.name}"


def _each(parameter: Parameter, check: _Check | None) -> Iterator[str]:
    """Yield a check for a tensor, for an optional tensor where it is there, or for each tensor of a list."""
    if check is None:
        return
    condition, refusal = check
    if parameter.kind is Kind.TENSOR_LIST:
        yield f"  for (const Held& item : arg_{parameter.name}) {{"
        yield f"    if ({condition}) {refusal}"
        yield "  }"
    else:
        there = f"arg_{parameter.name} && " if parameter.kind is Kind.OPTIONAL_TENSOR else ""
        yield f"  if ({there}{condition}) {refusal}"


def _check_place(name: str, text: str, first: str) -> _Check:
    return f"{text}.device != device_id", f'op.refuse_device("{name}", {text}, "{first}", device_id);'


def _check_rank(name: str, text: str, tensor: TensorType) -> _Check | None:
    variadic = tensor.shape.variadic_index is not None
    rank = tensor.shape.rank - variadic
    if variadic and rank == 0:
        return None
    quoted = tensor.text.replace('"', '\\"')
    refusal = f'op.refuse_rank("{name}", {text}, {rank}, {"true" if variadic else "false"}, "{quoted}");'
    return f"{text}.rank {'<' if variadic else '!='} {rank}", refusal


def _check_dtypes(signature: Signature) -> Iterator[str]:
    letters: dict[str, Parameter] = {}
    for parameter in sorted(signature.tensors, key=lambda p: p.kind is not Kind.TENSOR):
        letter = parameter.tensor_type.letter
        if letter and letter not in letters and parameter.kind is not Kind.OPTIONAL_TENSOR:
            letters[letter] = parameter
            text = _one(parameter)
            condition, refusal = _check_allowed(parameter.name, text, parameter.tensor_type, signature)
            yield f"  if ({condition}) {refusal}"
            yield f"  [[maybe_unused]] const int32_t dtype_{letter} = {text}.dtype;"
    for parameter in signature.tensors:
        tensor = parameter.tensor_type
        name, item = parameter.name, _item(parameter)
        if tensor.letter is None:
            yield from _each(parameter, _check_allowed(name, item, tensor, signature))
        elif letters[tensor.letter] is not parameter or parameter.kind is Kind.TENSOR_LIST:
            yield from _each(parameter, _check_same_dtype(name, item, letters[tensor.letter].name, tensor.letter))


def _check_same_dtype(name: str, text: str, first: str, letter: str) -> _Check:
    return f"{text}.dtype != dtype_{letter}", f'op.refuse_other_dtype("{name}", {text}, "{first}", dtype_{letter});'


def _check_allowed(name: str, text: str, tensor: TensorType, signature: Signature) -> _Check:
    allowed = signature.allowed(tensor)
    types = ", ".join(dtype_constant(DTYPES[dtype]) for dtype in allowed)
    words = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
    return f"!is_one_of({text}.dtype, {types})", f'op.refuse_dtype("{name}", {text}, "{words}");'


def size_value(expression: Expression, sizes: SizeProgram) -> str:
    """Return an expression in C++. One with arithmetic, which may have no result, is computed by Operator::size."""
    text = expression.cpp(_spellings(expression, sizes))
    if expression.name is not None or expression.constant is not None:  # most sizes, and they cost nothing
        return text
    return f'op.size([&] {{ return {text}; }}, "{expression.text}", {_named_values(expression, sizes)})'


def _spellings(expression: Expression, sizes: SizeProgram) -> dict[str, str]:
    """Return how the names of an expression are spelled in the binding: `arg_<name>` or `size_<name>`."""
    return {
        name: f"arg_{name}" if sizes.source.get(name) == "the argument" else f"size_{name}" for name in expression.names
    }


def _step(step: Step, sizes: SizeProgram) -> Iterator[str]:
    parameter = step.parameter
    name, text = parameter.name, _one(parameter)
    is_list = parameter.kind is Kind.TENSOR_LIST
    match step:
        case BindSize():
            yield f"  [[maybe_unused]] const int64_t size_{step.name} = {text}.size({step.axis});"
            if is_list:
                refusal = f'op.refuse_size("{name}", item, {step.axis}, size_{step.name}, "{step.name}", {{}});'
                yield f"  for (const Held& item : arg_{name}) {{"
                yield f"    if (item.size({step.axis}) != size_{step.name}) {refusal}"
                yield "  }"
        case SolveSize():
            scale, offset = size_value(step.affine.scale, sizes), size_value(step.affine.offset, sizes)
            yield (
                f'  [[maybe_unused]] const int64_t size_{step.affine.name} = op.solve("{name}", {text}, {step.axis}, '
                f'{scale}, {offset}, "{step.expression.text}", "{step.affine.name}");'
            )
            if is_list:
                yield from _check_items(step.parameter, step.axis, step.expression, sizes)
        case CheckSize():
            if is_list:
                yield from _check_items(step.parameter, step.axis, step.expression, sizes)
            else:
                yield f"  {_check_size(name, text, step.axis, step.expression, sizes)}"
        case BindGroup() | CheckGroup():
            if isinstance(step, BindGroup):
                behind = parameter.tensor_type.shape.rank - step.index - 1
                found = f"group_sizes({text}, {step.index}, {behind})"
                yield f"  [[maybe_unused]] const Sizes group_{step.group} = {found};"
            else:
                yield f"  {_check_group(name, text, parameter.tensor_type.shape, step.group, sizes)}"


def _check_items(parameter: Parameter, axis: int, expression: Expression, sizes: SizeProgram) -> Iterator[str]:
    """Check a size of every tensor of a list."""
    yield f"  for (const Held& item : arg_{parameter.name}) {{"
    yield f"    {_check_size(parameter.name, 'item', axis, expression, sizes)}"
    yield "  }"


def _check_group(argument: str, text: str, shape: Shape, group: str, sizes: SizeProgram) -> str:
    index = shape.variadic_index or 0
    found, source = f"{text}, {index}, {shape.rank - index - 1}", sizes.group_source[group]
    refusal = f'op.refuse_group("{argument}", {found}, group_{group}, "{group}", "{source}");'
    return f"if (!has_group({found}, group_{group})) {refusal}"


def _check_size(argument: str, text: str, axis: int, expression: Expression, sizes: SizeProgram) -> str:
    value, names = size_value(expression, sizes), _named_values(expression, sizes)
    refusal = f'op.refuse_size("{argument}", {text}, {axis}, expected, "{expression.text}", {names});'
    return f"if (const int64_t expected = {value}; {text}.size({axis}) != expected) {refusal}"
