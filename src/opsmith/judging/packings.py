"""Makes one function of the task's flat arguments of what a candidate's file has: a function, or a class to be built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.candidate import Entry

__all__ = ["SEED", "OpeningError", "filled", "number_as_tensor", "packed"]

# Modules are built under this seed, the task's and the candidate's.
SEED = 42

_Flat = Callable[[Sequence[Any]], Any]
_clone = Tensor.clone
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class OpeningError(Exception):
    """The file does not have what the task asks for; `refusal` is the name of the reason."""

    def __init__(self, message: str, refusal: str = "not loaded") -> None:
        super().__init__(message)
        self.refusal = refusal


def packed(found: Callable[..., Any], entry: Entry, device: str) -> _Flat:
    """Return a candidate as a function of the task's flat arguments, which are on the device.

    A class is built once, whatever the packing; raises OpeningError where it does not fit, and what building it raises.
    """
    function = _built(found, entry, device) if inspect.isclass(found) else _PACKINGS[entry.packing](found, entry)
    function = _by_name(function, entry.results) if entry.results else function
    return _with_copies(function, entry) if entry.written else function


def _by_name(function: _Flat, names: Sequence[str]) -> _Flat:
    def call(values: Sequence[Any]) -> Any:
        found = function(values)
        return tuple([found[name] for name in names]) if type(found) is dict and set(found) == set(names) else found

    return call


def _with_arguments(found: Callable[..., Any], entry: Entry) -> _Flat:
    return lambda values: found(*values)


def _with_keywords(found: Callable[..., Any], entry: Entry) -> _Flat:
    names = entry.parameters
    return lambda values: found(**dict(zip(names, values, strict=True)))


def _with_structure(found: Callable[..., Any], entry: Entry) -> _Flat:
    if entry.structure is None:
        return lambda values: found(tuple(values))
    structure = entry.structure
    return lambda values: found(filled(structure, values))


def number_as_tensor(number: float, device: str | None = None) -> Tensor:
    """Return a number that a function returns as a tensor without dimensions: float64, int64 or bool."""
    return torch.tensor(number, dtype=torch.float64 if type(number) is float else None, device=device)


def filled(structure: Any, values: Sequence[Any]) -> Any:
    """Return a structure with the arguments in the place of their positions."""
    if isinstance(structure, int):
        return values[structure]
    if isinstance(structure, list):
        return [filled(item, values) for item in structure]
    if "dict" in structure:
        return {name: filled(item, values) for name, item in structure["dict"].items()}
    return tuple(filled(item, values) for item in structure["tuple"])


def _with_outputs(found: Callable[..., Any], entry: Entry) -> _Flat:
    """Return a function that gives its outputs to a candidate that takes them, and returns what one without returns."""
    if not _takes_outputs(found, entry):
        return _with_arguments(found, entry)

    def call(values: Sequence[Any]) -> Any:
        given = dict(zip(entry.parameters, values, strict=True))
        device = next((value.device for value in values if isinstance(value, Tensor)), None)
        outputs = [
            torch.empty([_size(word, given) for word in shape], dtype=getattr(torch, dtype), device=device)
            for shape, dtype in entry.outputs
        ]
        found(*values, *outputs)
        return tuple(outputs)

    return call


def _takes_outputs(found: Callable[..., Any], entry: Entry) -> bool:
    """Whether a candidate writes its outputs to arguments behind the task's own, and not only has options there."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):  # what is bound from C++ has no signature to inspect
        return True
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return True
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    if sum(one.default is inspect.Parameter.empty for one in positional) > len(entry.parameters):
        return True
    behind = tuple(one.name for one in positional[len(entry.parameters) :])
    return bool(entry.results) and behind[: len(entry.results)] == entry.results


def _size(word: int | str, given: dict[str, Any]) -> int:
    if isinstance(word, int):
        return word
    name, _, dim = word.partition(".")
    return int(given[name].shape[int(dim)] if dim else given[name])


def _with_copies(function: _Flat, entry: Entry) -> _Flat:
    places = [entry.parameters.index(name) for name in entry.written]

    def call(values: Sequence[Any]) -> Any:
        given = list(values)
        for place in places:
            given[place] = _clone(given[place])
        found = function(given)
        return tuple(given[place] for place in places) if found is None else found

    return call


_PACKINGS: Mapping[str, Callable[[Callable[..., Any], Entry], _Flat]] = {
    "arguments": _with_arguments,
    "module": _with_arguments,
    "keywords": _with_keywords,
    "tuple": _with_structure,
    "destination": _with_outputs,
}


def _built(found: type, entry: Entry, device: str) -> _Flat:
    """Build a class and return a function that gives its weights and calls it."""
    torch.manual_seed(SEED)
    model = found(*map(_as_it_was, entry.init))
    if not isinstance(model, torch.nn.Module):
        if entry.lifted:
            raise OpeningError(f"{found.__name__} is not a torch.nn.Module, and the task's has parameters")
        return _with_arguments(model, entry)
    model.to(device)
    slots = _slots_of(model, entry, found.__name__)
    places = [index for index, name in enumerate(entry.parameters) if name not in entry.lifted]

    def call(values: Sequence[Any]) -> Any:
        for index, owners in slots:
            for owner, name in owners:
                owner[name] = values[index]
        return model(*[values[index] for index in places])

    return call


def _as_it_was(value: Any) -> Any:
    """Return an argument of a constructor as it was before JSON made lists of its tuples."""
    if isinstance(value, list):
        return [_as_it_was(item) for item in value]
    if isinstance(value, dict):
        return tuple(_as_it_was(item) for item in value["tuple"])
    return value


# The position of an argument, and all dictionaries of the module that have the weight, with its name there.
_Slot = tuple[int, list[tuple[dict[str, Any], str]]]


def _slots_of(model: torch.nn.Module, entry: Entry, name: str) -> list[_Slot]:
    """Return where the weights of a module are set; raises OpeningError if it does not have the task's, or has others.

    They are set in its dictionaries for each call, which is what `torch.func.functional_call` does, without its cost.
    """
    owners: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for held in (module._parameters, module._buffers):
            keys = [key for key in held.keys() if held[key] is not None]  # noqa: SIM118 -- of a scripted module's
            owners |= {f"{prefix}.{key}" if prefix else key: (held, key) for key in keys}
    wanted = dict.fromkeys(entry.lifted.values())
    missing = [one for one in wanted if one not in owners]
    more = [one for one, _ in model.named_parameters() if one not in wanted and one in owners]
    shapes = {word: tuple(entry.shapes[name]) for name, word in entry.lifted.items() if name in entry.shapes}
    other = [one for one in shapes if one in owners and tuple(owners[one][0][owners[one][1]].shape) != shapes[one]]
    if missing or more or other:
        words = [f"has no {', '.join(missing)}"] if missing else []
        words += [f"has {', '.join(more)}, which the task's does not"] if more else []
        words += [f"has {one} with another shape than {list(shapes[one])}" for one in other]
        raise OpeningError(f"{name} {' and '.join(words)}: its state dict must have the task's names", _MISSING)
    slots: list[_Slot] = []
    for index, parameter in enumerate(entry.parameters):
        if parameter in entry.lifted:
            held, key = owners[entry.lifted[parameter]]
            same = [place for place in owners.values() if place[0][place[1]] is held[key]]
            slots.append((index, same))
    return slots


_MISSING = "missing parameters"
