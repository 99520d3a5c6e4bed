"""RoIAlign: features of boxes of any size as grids of one size, by names and arguments of `torchvision.ops`."""

from opsmith.ops.roi_align.functions import RoIAlign, roi_align
from opsmith.ops.roi_align.multiscale import MultiScaleRoIAlign, roi_align_pyramid
from opsmith.ops.roi_align.pyramid import roi_align_pyramid_sized, roi_align_pyramid_transposed
from opsmith.ops.roi_align.sized import roi_align_sized, roi_align_transposed

__all__ = [
    "MultiScaleRoIAlign",
    "RoIAlign",
    "roi_align",
    "roi_align_pyramid",
    "roi_align_pyramid_sized",
    "roi_align_pyramid_transposed",
    "roi_align_sized",
    "roi_align_transposed",
]
