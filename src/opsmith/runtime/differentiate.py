"""Differentiates a Python body by running it again, with autograd on, on aliases of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import GradientError
from opsmith.runtime.body_results import check_form, check_tensors, results_of
from opsmith.spec.definition import Definition
from opsmith.spec.signature import Signature

__all__ = ["Body", "Place", "differentiate_body", "map_tensors", "tensors_of"]


class Body:
    """What an operator's gradients ask of its body: its results with their history, and its gradient.

    Both gradient paths call it, the one in C++ too.
    """

    def __init__(self, definition: Definition, refusal: str = "") -> None:
        self._function = definition.body
        self._signature = definition.signature
        self._refusal = refusal

    def results(self, arguments: Sequence[Any]) -> list[Tensor]:
        """Return the body's results for all arguments in order, recording gradients as PyTorch's operators do."""
        with _autograd_reachable(), _own_tensors_allowed():
            return list(_run(self._function, self._signature, arguments))

    def backward(
        self, arguments: Sequence[Any], gradients: Sequence[Tensor | None], wanted: Sequence[int]
    ) -> list[Tensor | None]:
        """Return the gradient of each tensor in `wanted`, which counts the tensors of all arguments in order.

        Raises GradientError if the arguments that this needs were not kept.
        """
        if self._refusal:
            raise GradientError(self._refusal)
        return differentiate_body(self._function, self._signature, arguments, gradients, wanted)


def differentiate_body(
    body: Callable[..., Any],
    signature: Signature,
    arguments: Sequence[Any],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[int],
) -> list[Tensor | None]:
    """Return the gradient of each tensor in `wanted`, which counts the tensors of `arguments` in order.

    The body is run again. With gradients enabled the result can itself be differentiated, unless this runs inside a
    kernel, below autograd: results of kernels have no history.
    """
    if torch._C._are_functorch_transforms_active() and not _inside_transform():
        return _differentiate_by_transform(body, signature, arguments, gradients, wanted)
    below = torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    create_graph = torch.is_grad_enabled() and not below
    leaves: list[Tensor] = []
    with torch.enable_grad(), _autograd_reachable(), _own_tensors_allowed(), _marks_allowed():

        def fresh(tensor: Tensor) -> Tensor:
            # An alias of its own for each argument: where one argument was computed from another, or the same tensor is
            # given twice, gradients must not flow from one to the other here. `detach` would not do: it also cuts
            # forward-mode gradients.
            alias = tensor.view_as(tensor)
            if len(leaves) in wanted and not alias.requires_grad:
                alias.requires_grad_()
            leaves.append(alias)
            return alias

        copies = [map_tensors(fresh, value) for value in arguments]
        pairs = [
            (result, gradient)
            for result, gradient in _pair(signature, _run(body, signature, copies), gradients)
            if result.requires_grad
        ]
        if not pairs:
            if any(gradient is not None for gradient in gradients):
                _check_has_history(body, signature, arguments)
            return [None] * len(wanted)
        found = torch.autograd.grad(
            [result for result, _ in pairs],
            [leaves[index] for index in wanted],
            [gradient for _, gradient in pairs],
            create_graph=create_graph,
            allow_unused=True,
        )
    return list(found)


def _differentiate_by_transform(
    body: Callable[..., Any],
    signature: Signature,
    arguments: Sequence[Any],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[int],
) -> list[Tensor | None]:
    """Do the same inside torch.func.grad, vmap and their like, which allow no tensor to be marked for gradients."""
    given: list[Tensor] = [tensor for value in arguments for tensor in tensors_of(value)]

    def function(*leaves: Tensor) -> tuple[Tensor, ...]:
        by_number = dict(zip(wanted, leaves, strict=True))
        numbers = iter(range(len(given)))

        def fresh(tensor: Tensor) -> Tensor:
            return by_number.get(next(numbers), tensor)

        results = _run(body, signature, [map_tensors(fresh, value) for value in arguments])
        return tuple(result for result, _ in _pair(signature, results, gradients))

    pull = torch.func.vjp(function, *[given[index] for index in wanted])[1]
    return list(pull(tuple(gradient for gradient in gradients if gradient is not None)))


def _inside_transform() -> bool:
    """Whether a transform of torch.func is at work on a call: the dispatcher would pass over one that began now.

    This is so where the body of a backward gives the tangents of torch.func.jvp.
    """
    return torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode)


@contextmanager
def _marks_allowed() -> Iterator[None]:
    """Let tensors be marked with `requires_grad_` that a transform of torch.func at work has wrapped."""
    before = torch._C._functorch.get_inplace_requires_grad_allowed()
    torch._C._functorch.set_inplace_requires_grad_allowed(True)
    try:
        yield
    finally:
        torch._C._functorch.set_inplace_requires_grad_allowed(before)


def _run(body: Callable[..., Any], signature: Signature, arguments: Sequence[Any]) -> Sequence[Tensor]:
    """Return the body's results for all arguments in order."""
    names = [parameter.name for parameter in signature.parameters]
    return results_of(body(**dict(zip(names, arguments, strict=True))))


def _pair(
    signature: Signature, results: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> list[tuple[Tensor, Tensor]]:
    """Return the results whose gradient is given, with it.

    Raises DefinitionError for results that are not what the definition declares, as the gradients are: a kernel's outputs
    are checked when it has run, the body's only here.
    """
    check_tensors(signature.name, results, [gradient is not None for gradient in gradients])
    pairs = []
    for output, result, gradient in zip(signature.outputs, results, gradients, strict=True):
        if gradient is not None:
            if signature.data_dependent:
                _equate_sizes(result, gradient)
            check_form(signature.name, output, result, tuple(gradient.shape))
            pairs.append((result, gradient))
    return pairs


def _equate_sizes(result: Tensor, gradient: Tensor) -> None:
    """Tell a tracer that sizes which data has decided are those that it decided on in the forward's run."""
    if result.dim() == gradient.dim():
        for mine, given in zip(result.shape, gradient.shape, strict=True):
            if isinstance(mine, torch.SymInt) or isinstance(given, torch.SymInt):
                torch._check(mine == given)


def _check_has_history(body: Callable[..., Any], signature: Signature, arguments: Sequence[Any]) -> None:
    """Raise GradientError where autograd has seen nothing of a body, whichever of its tensors asks for a gradient.

    A result that depends on other tensors than those that ask is not a mistake; neither is one of many that is constant.
    """
    if signature.mutated:  # running it once more would write to them once more
        return

    def marked(tensor: Tensor) -> Tensor:
        alias = tensor.detach()
        return alias.requires_grad_() if alias.is_floating_point() else alias

    results = _run(body, signature, [map_tensors(marked, value) for value in arguments])
    if any(isinstance(result, Tensor) and result.requires_grad for result in results):
        return
    raise GradientError(
        f"{signature.name}() has no gradient: autograd sees nothing of what its body computes, which detach(), .data, "
        "NumPy and torch.no_grad() hide. Write the body with PyTorch's operators, declare a backward, or list inputs "
        "without a gradient in nondifferentiable="
    )


def _autograd_reachable() -> AbstractContextManager[Any]:
    """Let operators record gradients although this may run inside a kernel, below autograd in the dispatcher.

    Without it nothing would be recorded there, and a gradient would silently be zero.
    """
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView"):
        excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


@contextmanager
def _own_tensors_allowed() -> Iterator[None]:
    """Let a body use tensors of its module where it is traced on fake ones, which before torch 2.13 refuse some of them.

    They are constants of the graph then, as in a function that torch.compile traces itself.
    """
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    state = getattr(fakes, "fake_tensor_tls", None)
    if state is None:
        yield
        return
    before = getattr(state, "allow_non_fake_inputs_override", None)
    state.allow_non_fake_inputs_override = True
    try:
        yield
    finally:
        state.allow_non_fake_inputs_override = before


class Place(int):
    """The place of a saved tensor; a type of its own, because an int argument must stay what it is."""


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Return an argument with a function's result in place of each tensor; an int result becomes a Place."""
    if isinstance(value, Tensor):
        found = function(value)
        return Place(found) if isinstance(found, int) else found
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return [map_tensors(function, item) for item in value]
    return value


def tensors_of(value: Any) -> Sequence[Tensor]:
    """Return the tensors in an argument: one, those of a list, or none."""
    if isinstance(value, Tensor):
        return (value,)
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, (list, tuple)) else ()
