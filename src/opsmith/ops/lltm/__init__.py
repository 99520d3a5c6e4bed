"""LLTM: the recurrent cell of PyTorch's extension tutorial, an LSTM without a forget gate and with an ELU candidate.

With the gates' pre-activations i, o, c = linear([hidden, input]) a step is

    new_cell   = cell + elu(c) * sigmoid(i)
    new_hidden = tanh(new_cell) * sigmoid(o)

(Goldsborough, "Custom C++ and CUDA Extensions", PyTorch tutorials, 2018.) The gradient published there is NaN for a gate
above 88.7, where exp overflows before it is masked out, and 0 instead of 1 at c = 0; the one here is right for every
finite gate.
"""

from __future__ import annotations

from opsmith.ops.lltm.cell import lltm_cell, lltm_cell_backward, lltm_gates, lltm_gates_backward
from opsmith.ops.lltm.layer import lltm
from opsmith.ops.lltm.module import LLTM, LLTMCell
from opsmith.ops.lltm.sequence import lltm_sequence, lltm_sequence_backward

__all__ = [
    "LLTM",
    "LLTMCell",
    "lltm",
    "lltm_cell",
    "lltm_cell_backward",
    "lltm_gates",
    "lltm_gates_backward",
    "lltm_sequence",
    "lltm_sequence_backward",
]
