"""A plugin for pytest: wherever torchvision has one of its operators by name, its tests find opsmith's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def ours() -> Mapping[str, Any]:
    """Return opsmith's operators by their names in torchvision.ops."""
    from opsmith.ops.deform_conv2d import DeformConv2d, deform_conv2d
    from opsmith.ops.nms import batched_nms, nms
    from opsmith.ops.roi_align import MultiScaleRoIAlign, RoIAlign, roi_align
    from opsmith.ops.roi_pool import RoIPool, roi_pool
    from opsmith.ops.sigmoid_focal_loss import sigmoid_focal_loss

    functions = (batched_nms, deform_conv2d, nms, roi_align, roi_pool, sigmoid_focal_loss)
    modules = (DeformConv2d, MultiScaleRoIAlign, RoIAlign, RoIPool)
    return {one.__name__: one for one in (*functions, *modules)}


def pytest_configure() -> None:
    """Change every module of torchvision that has one of its operators under its name."""
    import torchvision.ops

    mine = ours()
    theirs = {name: getattr(torchvision.ops, name) for name in mine}
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "torchvision"]
    for module in modules:
        for name, one in mine.items():
            if vars(module).get(name) is theirs[name]:
                setattr(module, name, one)
