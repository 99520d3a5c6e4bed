"""Matches a CuTe DSL host function's parameters with a definition: each gets its value from the parameter's name.

The function launches its kernels itself, so there is no grid. Its tensors bring their sizes and strides along.
"""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.spec.cute_function import CuteFunction, CuteParameter
from opsmith.spec.definition import Definition
from opsmith.spec.kernel_arguments import KernelArgument, find_missing, find_unknown_sizes, misfit
from opsmith.spec.launch import Launch
from opsmith.spec.quantities import Quantity, quantities
from opsmith.spec.signature import Kind, Parameter, Signature

__all__ = ["CONSTEXPR", "cute_prototype", "match_cute_arguments"]

CONSTEXPR = "Constexpr"
_TENSOR, _STREAM = "Tensor", "CUstream"
# How a kernel declares a number -> its type in the launcher.
_INTEGERS = {"Int32": "int32_t", "Int64": "int64_t"}
_FLOATS = {"Float32": "float", "Float64": "double"}
_FLAG = "Boolean"
# As people import them: `import cutlass`, `from cutlass import cute`, `import cuda.bindings.driver as cuda`.
_MODULES = {_TENSOR: "cute", _STREAM: "cuda"}


def match_cute_arguments(definition: Definition, function: CuteFunction) -> tuple[KernelArgument, ...]:
    """Return what each parameter of a function gets; raises SignatureError, with the prototype, if one does not fit."""
    signature = definition.signature
    launch = _launch(definition)
    known = quantities(signature)
    found = []
    for parameter in function.parameters:
        argument = _match(signature, launch, parameter, known)
        if parameter.name in function.keyword_only:
            argument = (
                f"`{parameter.name}` is given by keyword alone, and opsmith gives all by position: leave out the `*`"
            )
        if isinstance(argument, str):
            raise misfit(definition, function, cute_prototype(definition), argument)
        found.append(argument)
    for complaint in _complaints(signature, launch, tuple(found), known):
        raise misfit(definition, function, cute_prototype(definition), complaint)
    return tuple(found)


def cute_prototype(definition: Definition) -> str:
    """Return the first line of a function with everything that it may take; sizes may be left out."""
    signature = definition.signature
    launch = _launch(definition)
    words: dict[str, str] = {}
    for parameter in signature.parameters:
        words[parameter.name] = _written(_offered(parameter))
    words |= {output.name: _written(_TENSOR) for output in signature.outputs}
    for item in quantities(signature).values():
        if item.kind == "size" and not item.name.startswith(f"{item.tensor}_size_"):
            words.setdefault(item.name, _written("Int64"))
    words |= dict.fromkeys(launch.constants, _written(CONSTEXPR))
    stream = next(name for name in ("stream", "cuda_stream", "launch_stream") if name not in words)
    parameters = ", ".join(f"{name}: {text}" for name, text in {**words, stream: _written(_STREAM)}.items())
    return f"def {definition.kernels['cuda'].entry}({parameters})"


def _offered(parameter: Parameter) -> str:
    """Return the type that a function may declare for an argument; the first, where there are several."""
    if parameter.kind in (Kind.TENSOR, Kind.OPTIONAL_TENSOR):
        return _TENSOR
    if parameter.choices:
        return CONSTEXPR
    return {Kind.INT: "Int64", Kind.FLOAT: "Float32", Kind.BOOL: _FLAG}.get(parameter.kind, CONSTEXPR)


def _written(type_: str) -> str:
    return f"{_MODULES.get(type_, 'cutlass')}.{type_}"


def _launch(definition: Definition) -> Launch:
    launch = definition.kernels["cuda"].launch
    assert launch is not None
    return launch


def _complaints(
    signature: Signature, launch: Launch, arguments: tuple[KernelArgument, ...], known: dict[str, Quantity]
) -> Iterator[str]:
    yield from find_missing(signature, launch, arguments)
    streams = [argument.name for argument in arguments if argument.role == "stream"]
    if not streams:
        yield (
            "it takes no stream, and would launch on another than PyTorch's. Declare `stream: cuda.CUstream` "
            "(`import cuda.bindings.driver as cuda`), and launch with `stream=stream`"
        )
    if len(streams) > 1:
        yield f"it takes several streams, {', '.join(streams)}"
    for output in signature.outputs:
        if output.format_of:
            yield (
                f"`{output.name}` has the memory format of `{output.format_of}`, and tensors of CuTe kernels have their "
                "last dimension's elements one after another"
            )
    yield from find_unknown_sizes(launch, known)


def _match(  # noqa: PLR0911 - one line for each kind of parameter
    signature: Signature, launch: Launch, parameter: CuteParameter, known: dict[str, Quantity]
) -> KernelArgument | str:
    """Return what a parameter gets, or what is wrong with it."""
    name = parameter.name
    given = next((each for each in signature.parameters if each.name == name), None)
    if name in launch.constants:
        if given is not None or name in known:
            return f"`{name}` is a constant of the kernel and a value of the call; give one of them another name"
        if parameter.type != CONSTEXPR:
            return f"`{name}` is a constant of the kernel, which a function takes as `{_written(CONSTEXPR)}`"
        return KernelArgument(name, "constant")
    if given is not None:
        return _match_given(parameter, given)
    if signature.output(name) is not None:
        return _declared(parameter, "is an output", (_TENSOR,)) or KernelArgument(name, "tensor")
    if name in known:
        if known[name].kind == "stride":
            return f"`{name}`: a tensor brings its strides along; they are `{known[name].tensor}.stride`"
        return _match_integer(parameter, known[name], None)
    if parameter.type == _STREAM:
        return KernelArgument(name, "stream")
    return (
        f"`{name}` is no tensor, size or argument of the definition, no constant of the kernel, and no stream, which is "
        f"declared `{name}: {_written(_STREAM)}`"
    )


def _match_given(parameter: CuteParameter, given: Parameter) -> KernelArgument | str:  # noqa: PLR0911 - likewise
    name, kind = given.name, given.kind
    if kind in (Kind.TENSOR, Kind.OPTIONAL_TENSOR):
        return _declared(parameter, "is a tensor", (_TENSOR,)) or KernelArgument(name, "tensor", parameter=given)
    if parameter.type == CONSTEXPR:
        if given.choices or kind is Kind.BOOL:
            return KernelArgument(name, "choice", parameter=given)
        return f"`{name}` has any value, and `{_written(CONSTEXPR)}` is for bools, Literals and the kernel's constants"
    if kind is Kind.INT:
        return _match_integer(parameter, Quantity(name, "argument"), given)
    if kind is Kind.FLOAT:
        complaint = _declared(parameter, "is a float", tuple(_FLOATS))
        return complaint or KernelArgument(name, "number", parameter=given, type=_FLOATS[parameter.type])
    if kind is Kind.BOOL:
        return _declared(parameter, "is a bool", (_FLAG, CONSTEXPR)) or KernelArgument(name, "flag", parameter=given)
    if given.choices:
        return f"`{name}` is {kind.value}, which a function takes as `{_written(CONSTEXPR)}`"
    return (
        f"`{name}` is {kind.value}, and a CuTe kernel takes tensors, ints, floats and bools, and Literals as "
        f"`{_written(CONSTEXPR)}`"
    )


def _match_integer(parameter: CuteParameter, quantity: Quantity, given: Parameter | None) -> KernelArgument | str:
    complaint = _declared(parameter, "is an integer", tuple(_INTEGERS))
    return complaint or KernelArgument(parameter.name, "quantity", quantity, given, _INTEGERS[parameter.type])


def _declared(parameter: CuteParameter, what: str, types: tuple[str, ...]) -> str | None:
    """Return what is wrong with a parameter's annotation, or None."""
    if parameter.type in types:
        return None
    found = f"annotates it `{parameter.text}`" if parameter.text else "does not annotate it"
    wanted = " or ".join(f"`{_written(each)}`" for each in types)
    return f"`{parameter.name}` {what}, which is {wanted}; the function {found}"
