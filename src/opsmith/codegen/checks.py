"""How a binding checks a call: devices, ranks, element types and sizes, printed from the size program."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.spec.dims import Expression
from opsmith.spec.signature import Kind, Output, Parameter, Signature, TensorType
from opsmith.spec.sizes import BindGroup, BindSize, CheckGroup, CheckSize, SizeProgram, SolveSize, Step

__all__ = ["check_arguments", "check_output_sizes", "check_results", "spellings"]


def check_arguments(signature: Signature, sizes: SizeProgram) -> Iterator[str]:
    """Yield the lines that check the arguments and define `place`, `dtype_<letter>`, `size_<name>`, `group_<name>`."""
    anchor = _anchor(signature)
    for parameter in signature.tensors:
        if parameter.kind is Kind.TENSOR_LIST and _needs_first(parameter, signature, sizes):
            yield f'  op.check_not_empty("{parameter.name}", arg_{parameter.name});'
    yield f"  const Place place({_one(anchor)});"
    for parameter in signature.tensors:
        if parameter is not anchor:
            yield from _each(
                parameter, lambda name, text, a=anchor: f'op.check_place("{name}", {text}, "{a.name}", place);'
            )
    for parameter in signature.tensors:
        shape = parameter.tensor_type.shape
        variadic = shape.variadic_index is not None
        rank, at_least = shape.rank - variadic, "true" if variadic else "false"
        quoted = parameter.tensor_type.text.replace('"', '\\"')
        yield from _each(
            parameter,
            lambda name, text, r=rank, m=at_least, q=quoted: f'op.check_rank("{name}", {text}, {r}, {m}, "{q}");',
        )
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
        yield from _each(parameter, lambda name, text: f'op.check_writable("{name}", {text});')


def check_output_sizes(signature: Signature, sizes: SizeProgram) -> Iterator[str]:
    """Yield the lines that refuse a call whose outputs would have a negative size; a tensor's own size never is."""
    arguments = {parameter.name for parameter in signature.parameters if parameter.kind is Kind.INT}
    for output in signature.outputs:
        shape = output.tensor.shape
        for index, dim in enumerate(shape.dims):
            if dim.expression is None or dim.expression.constant is not None:
                continue
            if dim.expression.name is not None and dim.expression.name not in arguments:
                continue
            behind = shape.variadic_index is not None and index > shape.variadic_index
            axis = f"group_{shape.group}.size() + {index - 1}" if behind else str(index)
            value = dim.expression.cpp(spellings(dim.expression, sizes))
            names = _named_values(dim.expression, sizes)
            needed = f"if (arg_{output.needed_by}) " if output.needed_by else ""
            yield f'  {needed}op.check_output_size("{output.name}", {axis}, {value}, "{dim.text}", {names});'


def check_results(output: Output, signature: Signature, sizes: SizeProgram, found: dict[str, str]) -> Iterator[str]:
    """Yield the lines that hold what a native kernel returned against what the definition declares.

    `found` has the sizes that only the kernel knew, and the output that each was read off; new ones are added to it.
    """
    name, shape = f"out_{output.name}", output.tensor.shape
    variadic = shape.variadic_index is not None
    quoted = output.tensor.text.replace('"', '\\"')
    text = f"the output {output.name}"
    yield f'    op.check_defined("{output.name}", {name});'
    yield f'    op.check_place("{text}", {name}, "the first input", place);'
    yield f'    op.check_rank("{text}", {name}, {shape.rank - variadic}, {"true" if variadic else "false"}, "{quoted}");'
    if output.tensor.letter:
        yield f'    op.check_same_dtype("{text}", {name}, "the inputs", dtype_{output.tensor.letter});'
    else:
        yield f"    {_check_allowed(text, name, output.tensor, signature)}"
    if output.needed_by:
        group = f" + group_{shape.group}.size()" if variadic else ""
        rank = f"{shape.rank - variadic}{group}"
        yield f'    if (!arg_{output.needed_by}) op.check_skipped("{text}", {name}, {rank}, "{output.needed_by}");'
    needed = f"if (arg_{output.needed_by}) " if output.needed_by else ""
    if shape.variadic_index is not None:
        behind = shape.rank - shape.variadic_index - 1
        yield (
            f'    {needed}op.check_group("{text}", {name}, {shape.variadic_index}, {behind}, group_{shape.group}, '
            f'"{shape.group}", "{sizes.group_source[shape.group or ""]}");'
        )
    for index, dim in enumerate(shape.dims):
        if dim.expression is None:
            continue
        unknown = dim.expression.name if dim.expression.name in signature.data_dependent else None
        if unknown is not None and unknown not in found:
            found[unknown] = output.name
            yield f"    [[maybe_unused]] const int64_t size_{unknown} = Operator::size({name}, {shape.axis(index)});"
        else:
            yield f"    {needed}{_check_size(text, name, shape.axis(index), dim.expression, sizes)}"


def _named_values(expression: Expression, sizes: SizeProgram) -> str:
    """Return the C++ list of an expression's names with their values and sources, for the end of a message."""
    spelled = spellings(expression, sizes)
    words = [f'{{"{name}", {spelled[name]}, "{sizes.source.get(name, "here")}"}}' for name in sorted(expression.names)]
    return f"{{{', '.join(words)}}}"


def _anchor(signature: Signature) -> Parameter:
    """The tensor whose device the others are compared with: the first that is always there."""
    required = [parameter for parameter in signature.tensors if parameter.kind is Kind.TENSOR]
    return (required or [p for p in signature.tensors if p.kind is Kind.TENSOR_LIST])[0]


def _one(parameter: Parameter) -> str:
    return f"first_of(arg_{parameter.name})" if parameter.kind is Kind.TENSOR_LIST else f"arg_{parameter.name}"


def _needs_first(parameter: Parameter, signature: Signature, sizes: SizeProgram) -> bool:
    letters = {p.tensor_type.letter for p in signature.tensors if p.kind is Kind.TENSOR}
    binds = any(isinstance(step, (BindSize, SolveSize)) and step.parameter is parameter for step in sizes.steps)
    return binds or parameter is _anchor(signature) or parameter.tensor_type.letter not in {*letters, None}


def _each(parameter: Parameter, line: object) -> Iterator[str]:
    """Yield a check for a tensor, for an optional tensor where it is there, or for each tensor of a list."""
    assert callable(line)
    name = parameter.name
    if parameter.kind is Kind.TENSOR:
        yield f"  {line(name, f'arg_{name}')}"
    elif parameter.kind is Kind.OPTIONAL_TENSOR:
        yield f"  if (arg_{name}) {line(name, f'*arg_{name}')}"
    else:
        yield f"  for (const Tensor& item : arg_{name}) {line(name, 'item')}"


def _check_dtypes(signature: Signature) -> Iterator[str]:
    letters: dict[str, Parameter] = {}
    for parameter in sorted(signature.tensors, key=lambda p: p.kind is not Kind.TENSOR):
        letter = parameter.tensor_type.letter
        if letter and letter not in letters and parameter.kind is not Kind.OPTIONAL_TENSOR:
            letters[letter] = parameter
            text = _one(parameter)
            yield f"  {_check_allowed(parameter.name, text, parameter.tensor_type, signature)}"
            yield f"  [[maybe_unused]] const ScalarType dtype_{letter} = {text}.scalar_type();"
    for parameter in signature.tensors:
        tensor = parameter.tensor_type
        if tensor.letter is None:
            yield from _each(parameter, lambda name, text, t=tensor: _check_allowed(name, text, t, signature))
        elif letters[tensor.letter] is not parameter or parameter.kind is Kind.TENSOR_LIST:
            first = letters[tensor.letter].name
            yield from _each(
                parameter,
                lambda name, text, f=first, x=tensor.letter: (
                    f'op.check_same_dtype("{name}", {text}, "{f}", dtype_{x});'
                ),
            )


def _check_allowed(name: str, text: str, tensor: TensorType, signature: Signature) -> str:
    from opsmith.spec.dtypes import DTYPES

    allowed = signature.allowed(tensor)
    types = ", ".join(f"ScalarType::{DTYPES[dtype].scalar_type}" for dtype in allowed)
    words = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
    return f'op.check_dtype("{name}", {text}, {{{types}}}, "{words}");'


def spellings(expression: Expression, sizes: SizeProgram) -> dict[str, str]:
    """Return how the names of an expression are spelled in the binding: `arg_<name>` or `size_<name>`."""
    return {
        name: f"arg_{name}" if sizes.source.get(name) == "the argument" else f"size_{name}" for name in expression.names
    }


def _step(step: Step, sizes: SizeProgram) -> Iterator[str]:
    parameter = step.parameter
    name = parameter.name
    optional = parameter.kind is Kind.OPTIONAL_TENSOR
    text = f"*arg_{name}" if optional else _one(parameter)
    match step:
        case BindSize():
            yield f"  [[maybe_unused]] const int64_t size_{step.name} = Operator::size({text}, {step.axis});"
            if parameter.kind is Kind.TENSOR_LIST:
                check = f'op.check_size("{name}", item, {step.axis}, size_{step.name}, "{step.name}", {{}});'
                yield f"  for (const Tensor& item : arg_{name}) {check}"
        case SolveSize():
            scale = step.affine.scale.cpp(spellings(step.affine.scale, sizes))
            offset = step.affine.offset.cpp(spellings(step.affine.offset, sizes))
            yield (
                f'  [[maybe_unused]] const int64_t size_{step.affine.name} = op.solve("{name}", {text}, {step.axis}, '
                f'{scale}, {offset}, "{step.expression.text}", "{step.affine.name}");'
            )
            if parameter.kind is Kind.TENSOR_LIST:
                yield _check_items(step.parameter, step.axis, step.expression, sizes)
        case CheckSize():
            if parameter.kind is Kind.TENSOR_LIST:
                yield _check_items(step.parameter, step.axis, step.expression, sizes)
            else:
                yield f"  {_check_size(name, text, step.axis, step.expression, sizes)}"
        case BindGroup() | CheckGroup():
            behind = parameter.tensor_type.shape.rank - step.index - 1
            if isinstance(step, BindGroup):
                yield (
                    f"  [[maybe_unused]] const Sizes group_{step.group} = "
                    f"Operator::sizes_of_group({text}, {step.index}, {behind});"
                )
            else:
                source = sizes.group_source[step.group]
                yield (
                    f'  op.check_group("{name}", {text}, {step.index}, {behind}, group_{step.group}, "{step.group}", '
                    f'"{source}");'
                )


def _check_items(parameter: Parameter, axis: int, expression: Expression, sizes: SizeProgram) -> str:
    """Check a size of every tensor of a list."""
    check = _check_size(parameter.name, "item", axis, expression, sizes)
    return f"  for (const Tensor& item : arg_{parameter.name}) {check}"


def _check_size(argument: str, text: str, axis: int, expression: Expression, sizes: SizeProgram) -> str:
    value = expression.cpp(spellings(expression, sizes))
    names = _named_values(expression, sizes)
    return f'op.check_size("{argument}", {text}, {axis}, {value}, "{expression.text}", {names});'
