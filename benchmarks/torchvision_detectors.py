"""torchvision's detectors, made of a configuration of examples/detection: what the benchmarks compare it with.

What imports this has put the folder of that package on the path.
"""

from __future__ import annotations

from typing import Any

from opsmith_detection.config import ModelConfig
from torch import nn

__all__ = ["torchvision_model"]


def torchvision_model(config: ModelConfig, shorter_sides: tuple[int, ...], longest_side: int) -> nn.Module:
    """Return torchvision's model of a configuration, with new weights; it resizes images to these sides."""
    from torchvision.models import detection
    from torchvision.models.detection import faster_rcnn, mask_rcnn
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.rpn import RPNHead

    backbone, norm, channels = _backbone(config), _norm(config), config.backbone.pyramid_channels
    sizes: dict[str, Any] = {"min_size": shorter_sides, "max_size": longest_side}
    if config.kind == "retinanet":
        return detection.RetinaNet(backbone, config.classes + 1, **sizes)
    rpn, box, mask = config.rpn, config.box_head, config.mask_head
    assert rpn is not None and mask is not None and box.linears == (1 if box.convs else 2)
    anchors = AnchorGenerator(rpn.sizes, (rpn.ratios,) * len(rpn.sizes))
    pooled = channels * box.pooled**2
    return detection.MaskRCNN(
        backbone,
        rpn_anchor_generator=anchors,
        rpn_head=RPNHead(channels, anchors.num_anchors_per_location()[0], rpn.convs),
        rpn_pre_nms_top_n_train=rpn.candidates[0],
        rpn_pre_nms_top_n_test=rpn.candidates[1],
        rpn_post_nms_top_n_train=rpn.proposals[0],
        rpn_post_nms_top_n_test=rpn.proposals[1],
        rpn_batch_size_per_image=rpn.samples,
        rpn_positive_fraction=rpn.positive_fraction,
        box_head=faster_rcnn.FastRCNNConvFCHead(
            (channels, box.pooled, box.pooled), [channels] * box.convs, [box.channels], norm
        )
        if box.convs
        else faster_rcnn.TwoMLPHead(pooled, box.channels),
        box_predictor=faster_rcnn.FastRCNNPredictor(box.channels, config.classes + 1),
        box_batch_size_per_image=box.samples,
        box_positive_fraction=box.positive_fraction,
        box_score_thresh=box.score_threshold,
        box_detections_per_img=box.detections,
        mask_head=mask_rcnn.MaskRCNNHeads(channels, [mask.channels] * mask.convs, 1, norm if mask.norm else None),
        mask_predictor=mask_rcnn.MaskRCNNPredictor(mask.channels, mask.channels, config.classes + 1),
        **sizes,
    )


def _backbone(config: ModelConfig) -> nn.Module:
    from torchvision.models import resnet
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    of, width, channels = config.backbone, config.backbone.width, config.backbone.pyramid_channels
    norm: Any = _norm(config)
    block: Any = resnet.Bottleneck if of.depth >= 50 else resnet.BasicBlock
    body = resnet.ResNet(block, {18: [2, 2, 2, 2], 50: [3, 4, 6, 3]}[of.depth], norm_layer=norm)
    if width != 64:
        body.conv1, body.bn1, body.inplanes = nn.Conv2d(3, width, 7, 2, 3, bias=False), norm(width), width
        for stage in range(4):
            setattr(body, f"layer{stage + 1}", body._make_layer(block, width * 2**stage, 2, stride=min(2, stage + 1)))
    fixed = ("conv1", "layer1", "layer2", "layer3", "layer4")[: 5 - of.trainable_stages]
    for name in (*fixed, *(["bn1"] if fixed else [])):
        getattr(body, name).requires_grad_(False)
    is_retinanet = config.kind == "retinanet"
    stages = range(2, 5) if is_retinanet else range(1, 5)
    return BackboneWithFPN(
        body,
        {f"layer{stage}": str(number) for number, stage in enumerate(stages)},
        [width * block.expansion * 2 ** (stage - 1) for stage in stages],
        channels,
        LastLevelP6P7(channels, channels) if is_retinanet else None,
        norm if of.pyramid_norm else None,
    )


def _norm(config: ModelConfig) -> type[nn.Module]:
    from torchvision.ops import FrozenBatchNorm2d

    return FrozenBatchNorm2d if config.backbone.norm == "frozen" else nn.BatchNorm2d
