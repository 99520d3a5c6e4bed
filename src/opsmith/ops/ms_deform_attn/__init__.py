"""ms_deform_attn: multi-scale deformable attention, the operator at the core of Deformable DETR and its followers."""

from opsmith.ops.ms_deform_attn.functions import MSDeformAttnFunction, ms_deform_attn
from opsmith.ops.ms_deform_attn.module import MSDeformAttn
from opsmith.ops.ms_deform_attn.sampled import ms_deform_attn_sampled, ms_deform_attn_sampled_backward

__all__ = [
    "MSDeformAttn",
    "MSDeformAttnFunction",
    "ms_deform_attn",
    "ms_deform_attn_sampled",
    "ms_deform_attn_sampled_backward",
]
