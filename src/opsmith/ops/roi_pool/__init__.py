"""RoIPool: the largest features of boxes as grids of one size, by names and arguments of `torchvision.ops`."""

from opsmith.ops.roi_pool.functions import RoIPool, roi_pool
from opsmith.ops.roi_pool.sized import roi_pool_backward, roi_pool_sized

__all__ = ["RoIPool", "roi_pool", "roi_pool_backward", "roi_pool_sized"]
