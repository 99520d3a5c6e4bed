"""The recurrent layer of each variant: opsmith's LLTM, its definition in plain PyTorch, or PyTorch's LSTM of equal size."""

from __future__ import annotations

from builds import REFERENCE
from torch import Tensor, nn

from opsmith.ops.lltm import LLTM, lltm_sequence

MODULE = "opsmith.ops.lltm.sequence"
RIVAL = "nn.LSTM"


class ReferenceLLTM(LLTM):
    """One layer as its definition has it: a loop over the steps, differentiated by PyTorch."""

    def forward(self, input: Tensor, state: None = None) -> tuple[Tensor, None]:  # noqa: A002
        """Return the hidden states [B, T, S] of a batch [B, T, I]."""
        parameters = dict(self.named_parameters())
        zeros = input.new_zeros(input.shape[0], self.hidden_size)
        arguments = input.transpose(0, 1), zeros, zeros, parameters["weight_l0"], parameters["bias_l0"]
        hiddens = lltm_sequence.reference(*arguments)[0]
        return hiddens.transpose(0, 1), None


def make_layer(variant: str, inputs: int, units: int) -> nn.Module:
    """Return the layer of a variant; it takes [B, T, inputs] and gives [B, T, units] first."""
    kind = {RIVAL: nn.LSTM, REFERENCE: ReferenceLLTM}.get(variant, LLTM)
    return kind(inputs, units, batch_first=True)
