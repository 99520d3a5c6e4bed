"""RoIAlign: features of boxes of any size as grids of one size, by names and arguments of `torchvision.ops`."""

from opsmith.ops.roi_align.functions import RoIAlign, roi_align
from opsmith.ops.roi_align.sized import roi_align_sized, roi_align_transposed

__all__ = ["RoIAlign", "roi_align", "roi_align_sized", "roi_align_transposed"]
