"""Lifts a module: its weights and buffers become arguments, by `torch.func.functional_call`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from opsmith.errors import ArgumentError
from opsmith.judging.tasks.places import generator_of, here

__all__ = ["Lifted", "lifted_module", "varied"]

# Of a call with so many elements so many rows are tried, to see what it changes.
_MANY, _FEW_ROWS = 1 << 22, 2
# PyTorch does not hold the sizes of their weights against each other: it reads past them, or is ended by a signal.
_UNCHECKED = (torch.nn.RNNBase, torch.nn.RNNCellBase)


@dataclass(frozen=True)
class Lifted:
    """A module as a function of flat arguments: those of its `forward`, and then its weights.

    `weights` maps arguments to names of the state dict. Buffers that the module changes itself, as a batch norm does in
    training, are not among them. Sizes that are `fixed` must stay as they are wherever they stand.
    """

    reference: Callable[..., Any]
    arguments: tuple[str, ...]
    weights: Mapping[str, str]
    fixed: frozenset[int] = frozenset()

    @property
    def parameters(self) -> tuple[str, ...]:
        """All arguments."""
        return (*self.arguments, *self.weights)

    def values(self, model: torch.nn.Module) -> dict[str, Tensor]:
        """Return the weights of a module of the same kind, by argument."""
        state = model.state_dict()
        return {name: here(state[word].detach()) for name, word in self.weights.items()}


def lifted_module(model: torch.nn.Module, call: Sequence[Any]) -> Lifted:
    """Return a module as a function; `call` are the arguments of one call of it, on the CPU.

    Raises ArgumentError for a call that the module does not take.
    """
    arguments = _arguments_of(model, len(call))
    changed = _changed_by(model, call)
    names = [name for name in _unique_state(model) if name not in changed]
    weights = {_as_identifier(name, arguments): name for name in names}
    kept = {name: value for name, value in model.named_buffers() if name not in names}
    owners = {name: _owners_of(model, name) for name in (*weights.values(), *kept)}
    own = {name: held[key] for name, ((held, key), *_) in owners.items()}

    def reference(*values: Any) -> Any:
        given = values[: len(arguments)]
        state = dict(zip(weights.values(), values[len(arguments) :], strict=True)) | _like(kept, values)
        if torch.compiler.is_compiling():
            return functional_call(model, state, given)
        # It is timed against candidates, and functional_call takes longer than a small kernel.
        _set(owners, state)
        try:
            return model(*given)
        finally:
            _set(owners, own)

    return Lifted(reference, arguments, weights, _fixed_sizes(model))


def _fixed_sizes(model: torch.nn.Module) -> frozenset[int]:
    unchecked = [module for module in model.modules() if isinstance(module, _UNCHECKED)]
    return frozenset(size for module in unchecked for weight in module.parameters() for size in weight.shape)


def varied(weights: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Return weights with other numbers for those that are all one or all zero, as a norm's are at first.

    A kernel that leaves them out would be right otherwise. Matrices and filters that are zero stay so: that is a defect of
    a task, which is told.
    """
    generator = generator_of(seed)
    found = {}
    for name, weight in weights.items():
        has_numbers = (weight.is_floating_point() or weight.is_complex()) and weight.numel() > 0
        is_constant = has_numbers and bool((weight == weight.flatten()[0]).all())
        if is_constant and (weight.dim() < 2 or bool(weight.any()) or name.endswith("bias")):
            noise = torch.randn(weight.shape, generator=generator).clamp(-3, 3).to(weight.dtype)
            # Variances stay positive.
            found[name] = weight * (1 + 0.2 * noise) if bool(weight.any()) else 0.2 * noise
        else:
            found[name] = weight
    return found


def _arguments_of(model: torch.nn.Module, count: int) -> tuple[str, ...]:
    declared = inspect.signature(model.forward).parameters.values()
    named = [one.name for one in declared if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(named) < count and any(one.kind is one.VAR_POSITIONAL for one in declared):
        named += [f"input{index}" for index in range(len(named), count)]
    if len(named) < count:
        raise ArgumentError(f"the task gives {count} inputs, and forward takes {', '.join(named) or 'none'}")
    return tuple(named[:count])


def _unique_state(model: torch.nn.Module) -> list[str]:
    """Return the names of parameters and floating buffers of the state dict, a tied one once."""
    seen: set[int] = set()
    found = []
    for name, value in model.state_dict(keep_vars=True).items():
        is_weight = isinstance(value, Tensor) and (value.is_floating_point() or isinstance(value, torch.nn.Parameter))
        if is_weight and id(value) not in seen:
            seen.add(id(value))
            found.append(name)
    return found


# The dictionaries of a module and of those in it that have a tensor, each with its name there: a tied one has several.
_Owners = list[tuple[dict[str, Any], str]]


def _owners_of(model: torch.nn.Module, name: str) -> _Owners:
    """Return who has the tensor of a name of the state dict."""
    held = [
        (tensors, key)
        for module in model.modules()
        for tensors in (module._parameters, module._buffers)
        for key in tensors
    ]
    prefix, _, key = name.rpartition(".")
    module = model
    for one in prefix.split(".") if prefix else ():  # get_submodule takes a module that is called `to` for the method
        found = module._modules[one]
        assert found is not None
        module = found
    mine = module._parameters.get(key, module._buffers.get(key))
    return [(tensors, key) for tensors, key in held if tensors[key] is mine]


def _set(owners: Mapping[str, _Owners], tensors: Mapping[str, Any]) -> None:
    for name, places in owners.items():
        for held, key in places:
            held[key] = tensors[name]


def _changed_by(model: torch.nn.Module, call: Sequence[Any]) -> frozenset[str]:
    """Return the buffers that a call of a module changes; the module is as it was afterwards."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        few = _few_rows(call)
        if few is None or not _takes(model, few):
            try:
                model(*[value.clone() if isinstance(value, Tensor) else value for value in call])
            except Exception as error:
                raise ArgumentError(
                    f"the task's module does not take its own inputs: {type(error).__name__}: {error}"
                ) from error
    changed = frozenset(
        name for name, buffer in model.named_buffers() if name not in before or not torch.equal(buffer, before[name])
    )
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name in before:
                buffer.copy_(before[name])
    return changed


def _few_rows(call: Sequence[Any]) -> list[Any] | None:
    """Return a large call with few rows, which a CPU has done in a moment; None for one that is not large."""
    tensors = [value for value in call if isinstance(value, Tensor) and value.dim()]
    if sum(map(torch.numel, tensors)) < _MANY:
        return None
    count = tensors[0].shape[0]
    return [
        value[:_FEW_ROWS].clone() if isinstance(value, Tensor) and value.dim() and len(value) == count else value
        for value in call
    ]


def _takes(model: torch.nn.Module, call: Sequence[Any]) -> bool:
    try:
        model(*call)
    except Exception:
        return False
    return True


def _like(kept: Mapping[str, Tensor], values: Sequence[Any]) -> dict[str, Tensor]:
    """Return copies of buffers where the arguments are, floating ones in their element type."""
    like = next((one for one in values if isinstance(one, Tensor) and one.is_floating_point()), None)
    if like is None:
        return {name: value.clone() for name, value in kept.items()}
    dtypes = {True: like.dtype}
    return {
        name: value.to(like.device, dtypes.get(value.is_floating_point(), value.dtype), copy=True)
        for name, value in kept.items()
    }


def _as_identifier(name: str, taken: Sequence[str]) -> str:
    found = name.replace(".", "_")
    return f"{found}_" if found in taken else found
