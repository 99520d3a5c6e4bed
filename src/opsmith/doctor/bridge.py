"""Examines whether the bridge, which makes calls and gradients fast, is built for this torch."""

from __future__ import annotations

from opsmith import _env
from opsmith.doctor.finding import Finding, ok, warning
from opsmith.doctor.torch_state import TorchState

__all__ = ["judge_bridge"]


def judge_bridge(torch: TorchState) -> tuple[Finding, ...]:
    """Return what there is to say; nothing if torch itself does not work."""
    if torch.missing is not None or torch.broken is not None:
        return ()
    if _env.read("OPSMITH_BRIDGE") == "off":
        return (warning("bridge", "bridge: switched off", "Calls and gradients are slower.", "unset OPSMITH_BRIDGE"),)
    if torch.bridge is not None:
        return (ok("bridge", "bridge", torch.bridge), *_misfit(torch))
    if torch.bridge_failure is not None:
        detail = f"Its last build failed; calls and gradients are slower.\n{torch.bridge_failure}"
        return (*_misfit(torch), warning("bridge", "bridge: cannot be built", detail, "opsmith bridge"))
    detail = "Calls and gradients are slower without it; the first build of an operator builds it in the background."
    return (*_misfit(torch), warning("bridge", "bridge: not built for this torch", detail, "opsmith bridge"))


def _misfit(torch: TorchState) -> tuple[Finding, ...]:
    """Return why opsmith-bridge, where it is installed, has none for this torch."""
    if torch.bridge_misfit is None:
        return ()
    title = "bridge: the prebuilt ones do not fit"
    return (warning("bridge", title, f"{torch.bridge_misfit}.", "pip install --upgrade opsmith-bridge"),)
