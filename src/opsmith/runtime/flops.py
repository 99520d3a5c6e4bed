"""Registers an operator's formula with torch.utils.flop_counter: as declared, or counted in the body.

PyTorch counts matrix products, convolutions and attention, and nothing else. An operator counts what its body would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _python_dispatch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.differentiate import map_tensors, tensors_of
from opsmith.spec.definition import Definition

__all__ = ["register_flops"]


def register_flops(definition: Definition) -> None:
    """Make flop counters count an operator, those that are counting already included."""
    packet = getattr(getattr(torch.ops, definition.namespace), definition.name)
    formula = _formula(definition)
    flop_registry[packet] = formula
    for mode in _python_dispatch._get_current_dispatch_mode_stack():
        # A counter copies the registry when it is made, and an operator is loaded by its first call, which may be inside.
        counter = getattr(mode, "counter", None)
        if isinstance(counter, FlopCounterMode):
            counter.flop_registry[packet] = formula


def _formula(definition: Definition) -> Callable[..., int]:
    declared = definition.rules.flops
    signature = definition.signature

    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        arguments = bind_arguments(signature, args, kwargs)
        if declared is None:
            return _count_body(definition, arguments)
        named = {p.name: arguments.pop(p.name) for p in signature.parameters if p.keyword_only}
        return declared(*arguments.values(), **named)

    formula._get_raw = True  # type: ignore[attr-defined] # the counter would hand on shapes in place of tensors else
    return formula


def _count_body(definition: Definition, arguments: dict[str, Any]) -> int:
    """Return what a counter counts in the body, run on tensors without memory where it allows that."""
    mode = next((t.fake_mode for v in arguments.values() for t in tensors_of(v) if isinstance(t, FakeTensor)), None)
    own = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode

    def fake(tensor: Tensor) -> Tensor:
        if isinstance(tensor, FakeTensor):
            return torch.empty_like(tensor)
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)

    try:
        with own:
            return _count(definition, {name: map_tensors(fake, value) for name, value in arguments.items()})
    except RuntimeError:
        if mode is not None:
            raise
    # The body reads what is in a tensor (`.item()`, nonzero). Copies, because it may write to its arguments.
    copies = {name: map_tensors(lambda tensor: tensor.detach().clone(), value) for name, value in arguments.items()}
    return _count(definition, copies)


def _count(definition: Definition, arguments: dict[str, Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        definition.body(**arguments)
    return int(counter.get_total_flops())
