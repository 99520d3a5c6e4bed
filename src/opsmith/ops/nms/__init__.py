"""Non-maximum suppression: the boxes of a detector that do not overlap a better one.

`nms` and `batched_nms` take and return what torchvision's do. Theirs sorts, marks all pairs of boxes in N^2 bits and
walks through them; here a box meets only kept ones, found by place and size, and memory grows with N alone.
"""

from __future__ import annotations

from opsmith.ops.nms.hard import batched_nms, hard_nms, hard_nms_padded, nms, nms_padded
from opsmith.ops.nms.soft import soft_nms, soft_nms_padded

__all__ = ["batched_nms", "hard_nms", "hard_nms_padded", "nms", "nms_padded", "soft_nms", "soft_nms_padded"]
