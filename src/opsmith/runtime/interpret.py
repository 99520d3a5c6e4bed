"""Runs Triton kernels on the CPU, through Triton's interpreter, where TRITON_INTERPRET=1 asks for it.

The interpreter runs each block of a kernel with NumPy. So an operator whose kernel is Triton's can be called, checked and
debugged where there is no GPU, only slowly. Numbers, grid and configuration are those of the launcher that is generated
for the GPU (codegen/launcher.py).
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith import _env
from opsmith._forks import Lock
from opsmith.errors import ArgumentError, ArgumentValueError, ToolchainError
from opsmith.runtime.arguments import Bound, check_call
from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.outputs import output_forms
from opsmith.spec.definition import Definition, Kernel
from opsmith.spec.kernel_arguments import KernelArgument
from opsmith.spec.launch import Config, Constant, Launch
from opsmith.spec.quantities import Quantity, quantities, tensors_of
from opsmith.spec.signature import Kind
from opsmith.spec.sizes import SizeProgram, plan_sizes
from opsmith.spec.triton import match_arguments

__all__ = ["interpreted_blocks", "interpreted_kernel", "is_interpreted"]

# As in include/opsmith/embedded.h: numbers beyond this make all numbers 64 bits wide.
_MOST_NARROW = (1 << 31) - (1 << 20)

# The interpreter keeps the block that it is at, and what it has put in place of triton.language, in globals.
_LOCK = Lock()


def is_interpreted(definition: Definition) -> bool:
    """Tell whether calls on the CPU are to run a definition's Triton kernel."""
    kernel = definition.kernels.get("cuda")
    return kernel is not None and kernel.style == "triton" and _env.read("TRITON_INTERPRET") == "1"


def interpreted_kernel(definition: Definition, sizes: SizeProgram) -> Callable[..., tuple[Tensor, ...]]:
    """Return what runs a definition's Triton kernel on tensors of the CPU, and returns its outputs.

    Raises ToolchainError where Triton is not installed, and SignatureError or CompileError as a build does.
    """
    from opsmith.codegen.python_source import read_triton_function

    arguments = match_arguments(definition, read_triton_function(definition))
    signature, kernel = definition.signature, definition.kernels["cuda"]
    known = quantities(signature)
    function = _load(definition, kernel)

    def run(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        bound = check_call(signature, sizes, bind_arguments(signature, args, kwargs))
        forms = output_forms(signature, bound)
        outputs = tuple(form.allocate() for form in forms)
        is_dense = any(form.strides is not None for form in forms)
        named = dict(zip((output.name for output in signature.outputs), outputs, strict=True))
        given = {
            name: _laid_out(definition, name, value, arguments, is_dense=is_dense)
            for name, value in bound.arguments.items()
        }
        written = [*outputs, *(given[parameter.name] for parameter in signature.mutated)]
        if any(tensor is not None and tensor.numel() > 0 for tensor in written):
            _launch(definition, arguments, function, _Call({**given, **named}, bound, known, definition))
        for parameter in signature.mutated:
            original = bound.arguments[parameter.name]
            if original is not None and given[parameter.name] is not original:
                original.copy_(given[parameter.name])
        return outputs

    return run


def interpreted_blocks(definition: Definition, values: Mapping[str, Any]) -> int:
    """Return how many blocks the interpreter runs for a call with arguments by name; 0 if it runs none.

    It is 0, too, for what the operator refuses.
    """
    if not is_interpreted(definition):
        return 0
    signature = definition.signature
    try:
        bound = check_call(signature, plan_sizes(signature), bind_arguments(signature, (), values))
        outputs = (form.allocate() for form in output_forms(signature, bound))
        named = dict(zip((output.name for output in signature.outputs), outputs, strict=True))
        launch = definition.kernels["cuda"].launch
        assert launch is not None
        call = _Call({**bound.arguments, **named}, bound, quantities(signature), definition)
        return math.prod(_plan(definition, launch, call)[1])
    except ArgumentError:
        return 0


def _load(definition: Definition, kernel: Kernel) -> Any:
    """Return the interpreted function of a kernel's file, which is imported in its package."""
    from opsmith.codegen.python_source import kernel_module

    file, name = kernel.sources[0], kernel_module(definition)
    loaded = sys.modules.get(name)
    if loaded is None or getattr(loaded, "__file__", None) != str(file):
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(loaded)
        except ModuleNotFoundError as error:
            del sys.modules[name]
            needed = "; Triton's interpreter needs it: pip install numpy" if error.name == "numpy" else ""
            raise ToolchainError(f"TRITON_INTERPRET=1: {file} cannot be imported: {error}{needed}") from error
        except BaseException:
            del sys.modules[name]
            raise
    function = getattr(loaded, kernel.entry)
    while not hasattr(function, "rewrite") and hasattr(function, "fn"):
        function = function.fn
    if not hasattr(function, "rewrite"):
        raise ToolchainError(
            f"{kernel.entry} of {file} is not interpreted, because TRITON_INTERPRET was not set when its file was imported. "
            "Set it before the process starts"
        )
    return function


class _Call:
    """The numbers of one call: tensors as a kernel's views show them."""

    def __init__(
        self, values: Mapping[str, Any], bound: Bound, known: Mapping[str, Quantity], definition: Definition
    ) -> None:
        self.values, self._bound, self._known, self._definition = values, bound, known, definition

    def view(self, tensor: str) -> tuple[list[int], list[int]]:
        """Return the sizes and strides of a tensor's view, in which a variadic group is one dimension."""
        signature = self._definition.signature
        value = self.values[tensor]
        shape = tensors_of(signature)[tensor].shape
        if value is None:
            return [0] * shape.rank, [0] * shape.rank
        if any(tensor == parameter.name for parameter in signature.elementwise) or (
            signature.group and signature.output(tensor)
        ):
            return [value.numel()], [1]
        sizes, strides = list(value.shape), list(value.stride())
        index = shape.variadic_index
        if index is None:
            return sizes, strides
        end = len(sizes) - (shape.rank - index - 1)
        size, stride = 1, 1
        for dim in reversed(range(index, end)):
            if sizes[dim] != 1:
                stride = strides[dim] if size == 1 else stride
                size *= sizes[dim]
        return [*sizes[:index], size, *sizes[end:]], [*strides[:index], stride, *strides[end:]]

    def number(self, name: str) -> int:
        """Return a number by its name."""
        quantity = self._known[name]
        if quantity.kind == "argument":
            return int(self.values[name])
        if quantity.step is not None:
            return int(self._bound.sizes[name])
        sizes, strides = self.view(quantity.tensor)
        if quantity.kind == "numel":
            value = self.values[quantity.tensor]
            return 0 if value is None else int(value.numel())
        return int((sizes if quantity.kind == "size" else strides)[quantity.axis])

    def numbers(self, names: frozenset[str]) -> dict[str, int]:
        """Return those of some names that are numbers of the call."""
        return {name: self.number(name) for name in names if name in self._known}

    def is_wide(self, arguments: tuple[KernelArgument, ...]) -> bool:
        """Tell whether some number needs more than 32 bits."""
        found = [self.number(argument.name) for argument in arguments if argument.quantity is not None]
        for argument in arguments:
            if argument.role == "tensor":
                sizes, strides = self.view(argument.name)
                if 0 not in sizes:
                    found.append(sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
        return any(abs(number) > _MOST_NARROW for number in found)


def _launch(definition: Definition, arguments: tuple[KernelArgument, ...], function: Any, call: _Call) -> None:
    launch = definition.kernels["cuda"].launch
    assert launch is not None
    config, grid = _plan(definition, launch, call)
    if 0 in grid:
        if definition.signature.outputs:
            raise ArgumentValueError(
                f"{definition.name}(): the kernel's grid would be {' x '.join(map(str, grid))}, so that nothing writes the "
                "outputs; write it so that it has a block, such as max(1, ...)"
            )
        return
    constants = dict(config.constants)
    is_wide = call.is_wide(arguments)
    passed = {argument.name: _passed(definition, argument, call, constants, is_wide=is_wide) for argument in arguments}
    with _LOCK:
        function[grid](**passed)


def _plan(definition: Definition, launch: Launch, call: _Call) -> tuple[Config, tuple[int, int, int]]:
    """Return the configuration and the grid of a call."""
    compared = frozenset().union(*(config.when.names for config in launch.configs if config.when))
    numbers = call.numbers(compared.union(*(axis.names for axis in launch.axes)))
    try:
        config = launch.choose(numbers)
        if config is None:
            shown = ", ".join(f"{name} = {numbers[name]}" for name in sorted(compared & numbers.keys()))
            raise ArgumentValueError(
                f"{definition.name}(): no configuration of its kernel is for this call, {shown}; there are "
                f"{', '.join(each.when.text for each in launch.configs if each.when)}"
            )
        return config, launch.size(config, numbers)
    except (ZeroDivisionError, OverflowError) as error:
        why = "divides by zero" if isinstance(error, ZeroDivisionError) else "does not fit into 64 bits"
        raise ArgumentValueError(f"{definition.name}(): a number of the kernel's launch {why}") from None


def _passed(
    definition: Definition, argument: KernelArgument, call: _Call, constants: Mapping[str, Constant], *, is_wide: bool
) -> Any:
    """Return what a kernel's parameter gets: a constant as it is, everything else as a scalar of Triton's."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def scalar(value: Any, type_: Any, dtype: Any) -> Any:
        return tl.tensor(TensorHandle(np.array([value], dtype=dtype), type_), type_)

    name = argument.name
    if argument.role == "constant":
        return constants[name]
    if argument.quantity is not None:
        number = call.number(name)
        return scalar(number, tl.int64, np.int64) if is_wide else scalar(number, tl.int32, np.int32)
    value = call.values[name]
    if argument.role == "choice" or value is None:
        return value
    if argument.role == "flag":
        return scalar(value, tl.int1, np.bool_)
    if argument.role == "number":
        is_double = any(isinstance(each, Tensor) and each.dtype == torch.float64 for each in call.values.values())
        return scalar(value, tl.float64, np.float64) if is_double else scalar(value, tl.float32, np.float32)
    element = getattr(tl, "int1" if value.dtype == torch.bool else str(value.dtype).removeprefix("torch."))
    return scalar(value.data_ptr(), tl.pointer_type(element), np.uint64)


def _laid_out(
    definition: Definition, name: str, value: Any, arguments: tuple[KernelArgument, ...], *, is_dense: bool
) -> Any:
    """Return an input as the kernel can take it: as far as it takes no strides, they must be a contiguous tensor's.

    `is_dense` tells whether an elementwise operator's tensors have equal strides without gaps, which is as good.
    """
    from opsmith.codegen.launcher import strided_from

    parameter = definition.signature.parameter(name)
    if parameter is None or parameter.kind not in (Kind.TENSOR, Kind.OPTIONAL_TENSOR) or value is None:
        return value
    if parameter in definition.signature.elementwise:
        return value if is_dense else value.contiguous()
    first = strided_from(definition, name, arguments)
    is_row_wise = first < parameter.tensor_type.shape.rank
    if parameter.contiguous or first == 0 or (is_row_wise and value.shape[-1] != 1 and value.stride(-1) != 1):
        return value.contiguous()
    return value
