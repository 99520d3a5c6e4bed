"""Matches the parameters of a `__global__` function with a definition: each gets its value from the parameter's name.

Template parameters are what the kernel is compiled for: the definition's element types (`class T`), `class Index` for
the integers that sizes and strides fit into, constants of the launch, and choices of the definition.
"""

from __future__ import annotations

from opsmith.spec.cpp_names import identifier
from opsmith.spec.cuda_function import CudaFunction, CudaParameter
from opsmith.spec.definition import Definition
from opsmith.spec.kernel_arguments import KernelArgument, find_complaints, misfit
from opsmith.spec.launch import Launch
from opsmith.spec.quantities import Quantity, quantities, tensors_of, view_rank
from opsmith.spec.signature import Kind, Parameter, Signature, TensorType

__all__ = ["INDEX", "INTEGERS", "cuda_prototype", "match_cuda_arguments", "takes_index"]

# The template parameter that is int32_t where all numbers of a call and all offsets in its tensors fit, else int64_t.
INDEX = "Index"

# How a kernel may declare an integer -> its type in the launcher.
INTEGERS = {
    INDEX: "int64_t",
    **dict.fromkeys(("int", "int32_t", "signed int"), "int32_t"),
    **dict.fromkeys(("int64_t", "long", "long int", "long long", "long long int", "ptrdiff_t"), "int64_t"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t"), "uint32_t"),
    **dict.fromkeys(("size_t", "uint64_t", "unsigned long", "unsigned long long"), "uint64_t"),
}
# How a kernel may declare a pointer to an element type that the definition pins.
_ELEMENTS = {
    "float16": ("float16", "__half", "half"),
    "bfloat16": ("bfloat16", "__nv_bfloat16"),
    "float32": ("float",),
    "float64": ("double",),
    "uint8": ("uint8_t", "unsigned char"),
    "int8": ("int8_t", "signed char", "char"),
    "int16": ("int16_t", "short"),
    "int32": ("int32_t", "int"),
    "int64": ("int64_t", "long", "long long"),
    "bool": ("bool",),
}


def match_cuda_arguments(definition: Definition, function: CudaFunction) -> tuple[KernelArgument, ...]:
    """Return what each constant and each parameter of a kernel gets, in the order of its declaration.

    Raises SignatureError, with the prototype, if one does not fit.
    """
    signature = definition.signature
    launch = _launch(definition)
    known = quantities(signature)
    spelled = {identifier(name): name for name in (*_names(signature), *known)}
    found = []
    for is_template, parameter in [(True, each) for each in function.template] + [
        (False, each) for each in function.parameters
    ]:
        named = CudaParameter(spelled.get(parameter.name, parameter.name), parameter.type)
        if is_template:
            argument = _match_template(signature, launch, named, known)
        else:
            argument = _match(signature, launch, function, named, known)
        if isinstance(argument, str):
            raise misfit(definition, function, cuda_prototype(definition), argument)
        if argument is not None:
            found.append(argument)
    complaints = [*find_complaints(signature, launch, tuple(found), known), *_letters_missing(signature, function)]
    for complaint in complaints:
        raise misfit(definition, function, cuda_prototype(definition), complaint)
    return tuple(found)


def takes_index(function: CudaFunction) -> bool:
    """Tell whether a kernel is compiled for integers of 32 and of 64 bits."""
    return any(parameter == CudaParameter(INDEX, "class") for parameter in function.template)


def cuda_prototype(definition: Definition) -> str:
    """Return the declaration of a kernel with everything that it may take; sizes and strides may be left out."""
    signature = definition.signature
    launch = _launch(definition)
    constants = {name: "bool" if type(value) is bool else "int" for name, value in launch.configs[0].constants}
    choices = {each.name: _choice_type(each) for each in signature.parameters if each.choices}
    head = [f"class {name}" for name in (*signature.letters, INDEX)]
    head += [f"{kind} {identifier(name)}" for name, kind in {**constants, **choices}.items()]
    inputs = {
        each.name: _argument_type(signature, each)
        for each in signature.parameters
        if each.kind is not Kind.INT and each.name not in choices
    }
    outputs = {each.name: f"{_pointee(each.tensor)}*" for each in signature.outputs}
    # A size that is called like a type, such as T, has another name.
    types = (*signature.letters, INDEX)
    numbers = [
        f"{item.tensor}_size_{item.axis}" if item.name in types else item.name
        for item in quantities(signature).values()
        if item.kind == "argument" or (item.kind == "size" and not item.name.startswith(f"{item.tensor}_size_"))
    ]
    strides = (
        []
        if signature.group
        else [f"{name}_stride_{axis}" for name in tensors_of(signature) for axis in range(view_rank(signature, name))]
    )
    integers = dict.fromkeys([name for name in (*numbers, *strides) if name not in choices], INDEX)
    words = [f"{kind} {identifier(name)}" for name, kind in {**inputs, **outputs, **integers}.items()]
    entry = definition.kernels["cuda"].entry.rpartition("::")[2]
    return f"template <{', '.join(head)}> __global__ void {entry}({', '.join(words)})"


def _launch(definition: Definition) -> Launch:
    launch = definition.kernels["cuda"].launch
    assert launch is not None
    return launch


def _match_template(  # noqa: PLR0911 - one line for each kind of parameter
    signature: Signature, launch: Launch, parameter: CudaParameter, known: dict[str, Quantity]
) -> KernelArgument | str | None:
    """Return what a template parameter gets, or what is wrong with it; None for a type."""
    name, kind = parameter.name, parameter.type
    letters = ", ".join([*signature.letters, INDEX])
    if kind == "class":
        if name in (*signature.letters, INDEX):
            return None
        return f"`class {name}` is no type of the definition; there are {letters}"
    given = next((each for each in signature.parameters if each.name == name), None)
    if name in launch.constants:
        if given is not None or name in known:
            return f"`{name}` is a constant of the launch and a value of the call; give one of them another name"
        return KernelArgument(name, "constant")
    if given is not None and given.kind in (Kind.INT, Kind.BOOL) and (given.choices or given.kind is Kind.BOOL):
        return KernelArgument(name, "choice", parameter=given)
    if given is not None and given.choices:
        return f"`{name}` is {given.kind.value}, and a template parameter is a bool or a Literal of ints"
    if name in known:
        return (
            f"`{name}` differs from call to call, so it cannot be a template parameter. Take it as a parameter, or compile "
            f'for some values: configs=[{{"{name.upper()}_64": 64, "when": "{name} == 64"}}, ...]'
        )
    return (
        f"the template parameter `{kind} {name}` is no constant of the launch and no bool or Literal of the definition; "
        f"its types are {letters}"
    )


def _match(
    signature: Signature, launch: Launch, function: CudaFunction, parameter: CudaParameter, known: dict[str, Quantity]
) -> KernelArgument | str:
    """Return what a parameter gets, or what is wrong with it."""
    name = parameter.name
    given = next((each for each in signature.parameters if each.name == name), None)
    output = signature.output(name)
    if name in launch.constants:
        kinds = dict(launch.configs[0].constants)
        kind = "bool" if type(kinds[name]) is bool else "int"
        return f"`{name}` is a constant of the launch, so it is a template parameter: `template <..., {kind} {name}>`"
    if output is not None:
        found = _match_tensor(signature, function, parameter, output.tensor, is_written=True)
        return found or KernelArgument(name, "tensor")
    if given is not None:
        return _match_given(signature, function, parameter, given)
    if name in known:
        return _match_integer(function, parameter) or KernelArgument(
            name, "quantity", known[name], type=INTEGERS[parameter.type]
        )
    if not name:
        return f"the parameter `{parameter.type}` has no name"
    return f"`{name}` is no tensor, size, stride or number of the definition, and no constant of the launch"


def _match_given(  # noqa: PLR0911 - one line for each kind of argument
    signature: Signature, function: CudaFunction, parameter: CudaParameter, given: Parameter
) -> KernelArgument | str:
    name, kind = given.name, given.kind
    if kind in (Kind.TENSOR, Kind.OPTIONAL_TENSOR):
        found = _match_tensor(signature, function, parameter, given.tensor_type, is_written=given.mutated)
        # Without its parameter: one that is absent is a null pointer to the same kernel.
        return found or KernelArgument(name, "tensor")
    if kind is Kind.INT:
        return _match_integer(function, parameter) or KernelArgument(
            name, "quantity", Quantity(name, "argument"), given, INTEGERS[parameter.type]
        )
    if kind is Kind.FLOAT:
        allowed = ("float", "double", *(f"compute_t<{letter}>" for letter in signature.letters))
        if parameter.type in allowed:
            return KernelArgument(name, "number", parameter=given, type=parameter.type)
        return f"`{parameter.type} {name}` is a float argument, which a kernel takes as {' or '.join(allowed)}"
    if kind is Kind.BOOL:
        if parameter.type == "bool":
            return KernelArgument(name, "flag", parameter=given, type="bool")
        return f"`{parameter.type} {name}` is a bool argument, which a kernel takes as bool"
    return (
        f"`{name}` is {kind.value}, and a CUDA kernel takes tensors, ints, floats and bools, and Literals of ints and bools "
        "as template parameters"
    )


def _match_tensor(
    signature: Signature, function: CudaFunction, parameter: CudaParameter, tensor: TensorType, *, is_written: bool
) -> str | None:
    """Return what is wrong with a pointer, or None."""
    const = "" if is_written else "const "
    if any(parameter.type == f"{const}{element}*" for element in _spellings(signature, tensor)):
        return None
    what = "written" if is_written else "only read"
    is_template = tensor.letter is not None and tensor.letter not in {each.name for each in function.template}
    return (
        f"`{parameter.type} {parameter.name}` is a tensor that is {what}: the kernel takes "
        f"`{const}{_pointee(tensor)}* {parameter.name}`"
        + (f", with `template <class {tensor.letter}>`" if is_template else "")
    )


def _match_integer(function: CudaFunction, parameter: CudaParameter) -> str | None:
    """Return what is wrong with an integer, or None."""
    if parameter.type == INDEX and not takes_index(function):
        return f"`{INDEX} {parameter.name}` needs `class {INDEX}` among the template parameters"
    if parameter.type in INTEGERS:
        return None
    return (
        f"`{parameter.type} {parameter.name}` is an integer, which a kernel takes as int, int64_t, or `{INDEX}` with "
        f"`template <..., class {INDEX}>`"
    )


def _spellings(signature: Signature, tensor: TensorType) -> tuple[str, ...]:
    """Return how a kernel may spell a tensor's element type; the one type of a generic tensor, too, if it is but one."""
    if tensor.pinned is not None:
        return _ELEMENTS[tensor.pinned.name]
    letter = tensor.letter
    assert letter is not None
    at = signature.letters.index(letter)
    names = {dtypes[at].name for dtypes in signature.combinations()}
    return (letter, *(_ELEMENTS[names.pop()] if len(names) == 1 else ()))


def _pointee(tensor: TensorType) -> str:
    return _ELEMENTS[tensor.pinned.name][0] if tensor.pinned else tensor.letter or ""


def _argument_type(signature: Signature, parameter: Parameter) -> str:
    if parameter.tensor is not None:
        return f"{'' if parameter.mutated else 'const '}{_pointee(parameter.tensor)}*"
    if parameter.kind is Kind.FLOAT:
        return f"compute_t<{signature.letters[0]}>" if signature.letters[:1] == ("T",) else "float"
    return "bool"


def _choice_type(parameter: Parameter) -> str:
    return "bool" if parameter.kind is Kind.BOOL else "int"


def _letters_missing(signature: Signature, function: CudaFunction) -> list[str]:
    """Return a complaint for an element type that a kernel is no template over, though it has several."""
    taken = {parameter.name for parameter in function.template}
    return [
        f"the definition has several element types {letter}, and the kernel no template parameter `class {letter}`"
        for at, letter in enumerate(signature.letters)
        if letter not in taken and len({dtypes[at] for dtypes in signature.combinations()}) > 1
    ]


def _names(signature: Signature) -> list[str]:
    return [each.name for each in signature.parameters] + [each.name for each in signature.outputs]
