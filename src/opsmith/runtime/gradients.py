"""Registers an operator's gradient: through the bridge if there is one, else in Python."""

from __future__ import annotations

import torch

from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.differentiate import Body
from opsmith.runtime.gradient_plan import plan_gradient
from opsmith.spec.definition import Definition

__all__ = ["register_gradient"]


def register_gradient(definition: Definition, lib: torch.library.Library) -> None:
    """Register an operator's gradient; its backward's operator must be defined by then.

    The gradient is that of its backward definition or, where it has none, of its body. An operator that writes to its
    arguments has none: it raises GradientError if one is needed.
    """
    plan = plan_gradient(definition)
    body = Body(definition, plan.refusal_of_second)
    if (bridge := find_bridge()) is not None:
        bridge.install(plan, body)
    else:
        from opsmith.runtime.python_gradient import register_python_gradient

        register_python_gradient(plan, definition.signature, body, lib)
