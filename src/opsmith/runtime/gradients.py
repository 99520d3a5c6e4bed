"""How an operator gets its gradient through torch.library: from its backward definition, or by differentiating its body.

This is the path in Python. It works with every torch and needs no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import GradientError
from opsmith.runtime.differentiate import Place, differentiate_body, map_tensors, tensors_of
from opsmith.runtime.mutation import count_writes, overload_of, refuse_gradients
from opsmith.runtime.tensor_gradient import Backward, register_tensor_gradient, takes_tensors_only
from opsmith.spec.definition import Definition
from opsmith.spec.signature import Kind, Signature

__all__ = ["register_gradient"]


def register_gradient(
    definition: Definition, call_backward: Callable[..., Any] | None, lib: torch.library.Library
) -> None:
    """Give an operator its gradient; `call_backward` calls the operator of its backward definition, if it has one.

    An operator that writes to its arguments has none: it raises GradientError where one is asked for.
    """
    signature = definition.signature
    if signature.mutated:
        refuse_gradients(definition, lib)
        count_writes(definition, lib)
        return
    wiring = definition.wiring
    if wiring is None or call_backward is None:
        backward = _body_gradient(definition)
        saved_inputs = frozenset(range(len(signature.parameters)))
        saved_outputs: frozenset[int] = frozenset()
    elif takes_tensors_only(definition):
        again = _tensor_gradient_again(definition)
        register_tensor_gradient(
            definition, overload_of(definition.qualified_name), Backward(call_backward, again), lib
        )
        return
    else:
        backward = _kernel_gradient(definition, call_backward)
        saved_inputs = frozenset(argument.index for argument in wiring.arguments if argument.source == "input")
        saved_inputs |= {index for index, parameter in enumerate(signature.parameters) if parameter.tensor is None}
        saved_outputs = frozenset(argument.index for argument in wiring.arguments if argument.source == "output")
    torch.library.register_autograd(
        definition.qualified_name,
        backward,
        setup_context=_make_setup(signature, saved_inputs, saved_outputs),
        lib=lib,
    )


def _make_setup(
    signature: Signature, saved_inputs: frozenset[int], saved_outputs: frozenset[int]
) -> Callable[..., None]:
    """Return the function that keeps what the backward needs: tensors through autograd's own saving, the rest as it is."""
    plain = [index for index, output in enumerate(signature.outputs) if not output.differentiable]
    keyword_only = {parameter.name for parameter in signature.parameters if parameter.keyword_only}
    has_lists = any(parameter.kind is Kind.TENSOR_LIST for parameter in signature.parameters)

    def keep(ctx: Any, inputs: Sequence[Any], keywords: dict[str, Any], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        values = [*inputs]
        values += [keywords.get(p.name, p.default) for p in signature.parameters if p.keyword_only]
        ctx.mark_non_differentiable(*(outputs[index] for index in plain))
        tensors: list[Tensor] = []

        def stow(tensor: Tensor) -> int:
            tensors.append(tensor)
            return len(tensors) - 1

        ctx.opsmith_inputs = {index: map_tensors(stow, values[index]) for index in sorted(saved_inputs)}
        ctx.opsmith_outputs = {index: stow(outputs[index]) for index in sorted(saved_outputs)}
        ctx.opsmith_counts = [len(tensors_of(value)) for value in inputs]
        ctx.opsmith_blank = [_blank(value) if has_lists else None for value in inputs]
        ctx.save_for_backward(*tensors)

    if keyword_only:

        def setup_with_keywords(ctx: Any, inputs: Sequence[Any], keyword_only_inputs: Any, output: Any) -> None:
            keep(ctx, inputs, keyword_only_inputs, output)

        return setup_with_keywords

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        keep(ctx, inputs, {}, output)

    return setup


def _kernel_gradient(definition: Definition, call_backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the backward that calls the operator of the backward definition."""
    wiring = definition.wiring
    assert wiring is not None
    opaque = _opaque_outputs(definition)
    through_body = _body_gradient(definition)

    def backward(ctx: Any, *gradients: Tensor) -> Any:
        if opaque and torch.is_grad_enabled():
            _check_inputs_saved(definition, ctx, opaque)
            return through_body(ctx, *gradients)
        saved = ctx.saved_tensors
        sources: dict[str, Any] = {
            "gradient": gradients,
            "input": {index: _restore(value, saved) for index, value in ctx.opsmith_inputs.items()},
            "output": {index: saved[place] for index, place in ctx.opsmith_outputs.items()},
        }
        arguments = [sources[argument.source][argument.index] for argument in wiring.arguments]
        results = call_backward(*arguments)
        found = results if isinstance(results, tuple) else (results,)
        # A kernel writes the gradient of an optional tensor that was not given, too; autograd must not see it.
        given = ctx.opsmith_counts
        return _answer(ctx, {index: item for index, item in zip(wiring.inputs, found, strict=True) if given[index]})

    return backward


def _tensor_gradient_again(definition: Definition) -> Callable[..., tuple[Any, ...]] | None:
    """Return what `Backward.again` asks for: the gradient of the body, where the backward reads a saved output."""
    wiring, count = definition.wiring, len(definition.signature.parameters)
    assert wiring is not None
    if not (opaque := _opaque_outputs(definition)):
        return None
    through_body = _body_gradient(definition)
    indices = sorted({argument.index for argument in wiring.arguments if argument.source == "input"})
    places = {index: Place(place) for place, index in enumerate(indices)}

    def again(saved: Sequence[Tensor], needed: Sequence[bool], gradients: Sequence[Tensor]) -> tuple[Any, ...]:
        ctx = SimpleNamespace(saved_tensors=saved, needs_input_grad=needed, opsmith_inputs=places)
        ctx.opsmith_counts, ctx.opsmith_blank = [1] * count, [None] * count
        _check_inputs_saved(definition, ctx, opaque)
        answer: tuple[Any, ...] = through_body(ctx, *gradients)
        return answer

    return again


def _opaque_outputs(definition: Definition) -> tuple[str, ...]:
    """Return the saved outputs that the backward reads and that carry values of the inputs.

    A second gradient would have to flow back through them, but the graph ends at them. The body knows the way instead.
    """
    assert definition.wiring is not None
    outputs = definition.signature.outputs
    used = {argument.index for argument in definition.wiring.arguments if argument.source == "output"}
    return tuple(outputs[index].name for index in sorted(used) if outputs[index].saved and outputs[index].is_floating)


def _check_inputs_saved(definition: Definition, ctx: Any, opaque: tuple[str, ...]) -> None:
    absent = [
        parameter.name
        for index, parameter in enumerate(definition.signature.parameters)
        if parameter.tensor is not None and index not in ctx.opsmith_inputs
    ]
    if absent:
        raise GradientError(
            f"{definition.name}() cannot be differentiated twice: its backward reads the saved output {opaque[0]}, so the "
            f"second gradient goes through the body, and that needs {', '.join(absent)}, which the backward does not take. "
            f"Add {'it' if len(absent) == 1 else 'them'} to the parameters of the backward"
        )


def _body_gradient(definition: Definition) -> Callable[..., Any]:
    """Return the backward that differentiates the body."""
    signature = definition.signature
    positional = [parameter for parameter in signature.parameters if not parameter.keyword_only]

    def backward(ctx: Any, *gradients: Tensor) -> Any:
        saved = ctx.saved_tensors
        arguments = [_restore(value, saved) for _, value in sorted(ctx.opsmith_inputs.items())]
        # Every tensor that was given, as its argument's index and its place in a list.
        places = [(index, place) for index, count in enumerate(ctx.opsmith_counts) for place in range(count)]
        wanted = [
            number
            for number, (index, place) in enumerate(places)
            if positional[index].differentiable and _is_needed(ctx.needs_input_grad[index], place)
        ]
        found = differentiate_body(definition.body, signature, arguments, gradients, wanted)
        answer: dict[int, Any] = {}
        for number, gradient in zip(wanted, found, strict=True):
            index, place = places[number]
            if positional[index].kind is Kind.TENSOR_LIST:
                answer.setdefault(index, [None] * ctx.opsmith_counts[index])[place] = gradient
            else:
                answer[index] = gradient
        return _answer(ctx, answer)

    return backward


def _is_needed(flag: Any, place: int) -> bool:
    """Read a flag of `needs_input_grad`, which is a list of flags for a list of tensors."""
    return bool(flag[place] if isinstance(flag, (list, tuple)) else flag)


def _answer(ctx: Any, found: Mapping[int, Any]) -> tuple[Any, ...]:
    """Return what torch.library expects of a backward: a gradient, None, or a list of them for each argument.

    PyTorch drops arguments at the end that have their defaults, and wants no gradients for them.
    """
    return tuple(found.get(index, ctx.opsmith_blank[index]) for index in range(len(ctx.needs_input_grad)))


def _blank(value: Any) -> Any:
    """Return what stands for no gradient: None, and for a list of tensors (or an empty list of anything) one for each.

    torch.library compares the structure of the gradients with that of the arguments where lists of tensors are among them.
    """
    if isinstance(value, (list, tuple)) and all(isinstance(item, Tensor) for item in value):
        return [None] * len(value)
    return None


def _restore(value: Any, saved: Sequence[Tensor]) -> Any:
    """Undo `stow`: put the saved tensors where their places stand."""
    if isinstance(value, Place):
        return saved[value]
    if isinstance(value, list):
        return [_restore(item, saved) for item in value]
    return value
