"""The base of modes that see what a call dispatches to PyTorch's operators."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["DispatchMode"]


class DispatchMode(TorchDispatchMode):
    """A TorchDispatchMode that is entered without importing TorchDynamo, which takes seconds in each new process."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch asks this since 2.10, and wraps the subclass's __torch_dispatch__ in torch._dynamo.disable if it is True.
        return False
