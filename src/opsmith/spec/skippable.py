"""Finds the outputs that a call may leave out, because a bool argument says whether anybody needs them.

Of a backward those are gradients, of a forward what it keeps for its backward.
"""

from __future__ import annotations

from dataclasses import replace

from opsmith.errors import DefinitionError
from opsmith.spec.gradient import Wiring
from opsmith.spec.signature import Kind, Output, Parameter, Signature

__all__ = ["mark_unneeded_gradients", "mark_unneeded_saved"]


def mark_unneeded_saved(forward: Signature) -> Signature:
    """Return a forward whose saved outputs know the argument `needs_<output>` that tells whether they are needed.

    Raises DefinitionError unless that is a bool with the default False, for nobody but a gradient needs them, if the output
    is not saved, and if the kernel alone knows a size of it: one that is left out tells no size.
    """
    return replace(forward, outputs=tuple(_with_flag(forward, output) for output in forward.outputs))


def mark_unneeded_gradients(backward: Signature, wiring: Wiring) -> Signature:
    """Return a wired backward whose outputs know the argument that tells whether they are needed.

    Raises DefinitionError if the kernel alone knows a size of such an output.
    """
    flags = {
        argument.index: parameter.name
        for argument, parameter in zip(wiring.arguments, backward.parameters, strict=True)
        if argument.source == "needs"
    }
    outputs = tuple(
        replace(output, needed_by=flags.get(index))
        for output, index in zip(backward.outputs, wiring.inputs, strict=True)
    )
    for output in outputs:
        instead = f"Take the input {output.name.removeprefix('grad_')} too, or an argument"
        _check_sizes(backward, output, instead)
    return replace(backward, outputs=outputs)


def _with_flag(forward: Signature, output: Output) -> Output:
    parameter = forward.parameter(f"needs_{output.name}")
    if parameter is None or (parameter.kind is not Kind.BOOL and not output.saved):
        return output
    if not output.saved:
        raise DefinitionError(
            f"{forward.name}: the argument {parameter.label} is for the output {output.name}, which is not in saved=: "
            "only what is kept for the backward can be left out. Save it, or give the argument another name"
        )
    _check_flag(forward, parameter, output)
    marked = replace(output, needed_by=parameter.name)
    _check_sizes(forward, marked, "Take an argument")
    return marked


def _check_flag(forward: Signature, parameter: Parameter, output: Output) -> None:
    where = f"{forward.name}: the argument {parameter.label} says whether the saved output {output.name} is needed"
    if parameter.kind is not Kind.BOOL:
        raise DefinitionError(f"{where}, but is {parameter.kind.value}: annotate it bool")
    if not parameter.has_default or parameter.default is not False:
        raise DefinitionError(f"{where}; only calls with a gradient need it, so give it the default False")


def _check_sizes(signature: Signature, output: Output, instead: str) -> None:
    if output.needed_by and (unknown := sorted(output.tensor.shape.names & signature.data_dependent)):
        raise DefinitionError(
            f"{signature.name}: no input gives the size {unknown[0]} of {output.name}, which is left out where "
            f"{output.needed_by} is False. {instead} `{unknown[0]}: int`"
        )
