"""Models of torchvision with weights that a seed makes, and what compares with them.

Weights are made by their names and shapes, so that they can be had without torchvision. They are sensible: activations keep
their size, residuals are small, so that rounding does not grow from layer to layer, and scores spread.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from opsmith_detection.config import (
    BackboneConfig,
    BoxHeadConfig,
    MaskHeadConfig,
    ModelConfig,
    RetinaNetConfig,
    RPNConfig,
)
from opsmith_detection.models.weights import our_name
from opsmith_detection.structures import Detections, Targets
from torch import Tensor, nn
from torch.nn import functional

from opsmith.ops import linear_assignment

NAMES = ("mask_rcnn", "mask_rcnn_v2", "retinanet", "retinanet_v2")
SEED = 2  # of images for which rounding decides no comparison of scores or overlaps
CLASSES = 10
DETECTIONS = 6

# The first of these that fits a name says how its numbers are spread; for a number in None's place: by how many there are.
_SPREADS: tuple[tuple[str, float | None], ...] = (
    (r"running_mean$", 0.1),
    (r"rpn\.head\.cls_logits\.weight$", 0.1),
    (r"rpn\.head\.bbox_pred\.weight$", 0.05),
    (r"box_predictor\.cls_score\.weight$", 0.05),
    (r"box_predictor\.bbox_pred\.weight$", 0.03),
    (r"mask_fcn_logits\.weight$", 0.05),
    (r"classification_head\.cls_logits\.weight$", 0.03),
    (r"regression_head\.bbox_reg\.weight$", 0.02),
    (r"\.bias$", 0.1),
    (r"\.weight$", None),
)


def made_weights(shapes: Mapping[str, Iterable[int]]) -> dict[str, Tensor]:
    """Return a state dict of torchvision's names with these shapes."""
    made = {}
    for name, shape in shapes.items():
        size = tuple(shape)
        random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if name.endswith("num_batches_tracked"):
            made[name] = torch.zeros(size, dtype=torch.int64)
        elif name.endswith("running_var"):
            made[name] = 0.75 + 0.5 * torch.rand(size, generator=random)
        elif name.endswith(".weight") and len(size) == 1:  # of a norm; those at the end of a block are small
            is_last = name.endswith("bn3.weight") or (
                name.endswith("bn2.weight") and name.replace("bn2", "bn3") not in shapes
            )
            made[name] = (0.2 if is_last else 1.0) * (0.75 + 0.5 * torch.rand(size, generator=random))
        else:
            spread = next(spread for pattern, spread in _SPREADS if re.search(pattern, name))
            if spread is None:
                fan_in = torch.Size(size[1:]).numel()
                spread = (0.3 if ".fpn." in name else 1.0) * (2 / fan_in) ** 0.5
            made[name] = spread * torch.randn(size, generator=random)
            if name.endswith("classification_head.cls_logits.bias"):
                made[name] -= 3
                made[name].view(9, -1)[:, 0] -= 20  # no object has the label 0
    return made


def made_images(seed: int) -> tuple[Tensor, Tensor]:
    """Return smooth images of three sizes in a canvas, uint8 [3, 3, 128, 160], and the sizes."""
    random = torch.Generator().manual_seed(seed)
    sizes = [(128, 150), (100, 160), (97, 83)]
    images = torch.zeros(len(sizes), 3, 128, 160, dtype=torch.uint8)
    for image, (height, width) in zip(images, sizes, strict=True):
        coarse = torch.rand(1, 3, 12, 12, generator=random)
        smooth = functional.interpolate(coarse, (height, width), mode="bilinear", align_corners=False)
        image[:, :height, :width] = (smooth[0] * 255).to(torch.uint8)
    return images, torch.tensor(sizes, dtype=torch.float32)


def narrow_config(name: str, **box_head: Any) -> ModelConfig:
    """Return the configuration of `narrow_model`."""
    is_v2 = name.endswith("_v2")
    is_retinanet = name.startswith("retinanet")
    norm = "batch" if is_v2 else "frozen"
    return ModelConfig(
        kind="retinanet" if is_retinanet else "rcnn",
        classes=CLASSES,
        backbone=BackboneConfig(
            depth=18,
            width=16,
            pyramid_channels=32,
            norm=norm,
            trainable_stages=5,
            pyramid_norm=is_v2 and not is_retinanet,
        ),
        rpn=RPNConfig(convs=2 if is_v2 else 1, candidates=(200, 100), proposals=(100, 80)),
        box_head=BoxHeadConfig(
            convs=2 if is_v2 else 0, linears=1 if is_v2 else 2, channels=64, detections=DETECTIONS, **box_head
        ),
        mask_head=MaskHeadConfig(convs=2, channels=32, norm=is_v2) if name.startswith("mask") else None,
        retinanet=RetinaNetConfig(
            norm=is_v2,
            extra_levels_from="c5" if is_v2 else "p5",
            box_loss="giou" if is_v2 else "l1",
            detections=DETECTIONS,
        ),
    )


def narrow_model(name: str, **options: Any) -> Any:
    """Return a model of torchvision with few channels, which leaves images as large as they are.

    `name` is mask_rcnn or retinanet, or one of these with _v2.
    """
    from torchvision.models import detection, resnet
    from torchvision.models.detection import backbone_utils, faster_rcnn, mask_rcnn, retinanet, rpn
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    is_v2, is_retinanet = name.endswith("_v2"), name.startswith("retinanet")
    body = resnet.ResNet(resnet.BasicBlock, [2, 2, 2, 2])
    body.conv1, body.bn1, body.inplanes = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), 16
    for stage in range(4):
        made = body._make_layer(resnet.BasicBlock, 16 * 2**stage, 2, stride=1 if stage == 0 else 2)
        setattr(body, f"layer{stage + 1}", made)
    stages = range(2, 5) if is_retinanet else range(1, 5)
    widths = [8 * 2**stage for stage in stages]
    backbone = backbone_utils.BackboneWithFPN(
        body,
        {f"layer{stage}": str(number) for number, stage in enumerate(stages)},
        widths,
        32,
        LastLevelP6P7(128 if is_v2 else 32, 32) if is_retinanet else None,
        nn.BatchNorm2d if is_v2 and not is_retinanet else None,
    )
    if is_retinanet:
        norm = partial(nn.GroupNorm, 32) if is_v2 else None
        head = retinanet.RetinaNetHead(32, 9, CLASSES + 1, norm_layer=norm)
        head.regression_head._loss_type = "giou" if is_v2 else "l1"
        model: Any = detection.RetinaNet(backbone, CLASSES + 1, head=head, detections_per_img=DETECTIONS, **options)
    else:
        norm = nn.BatchNorm2d if is_v2 else None
        model = detection.MaskRCNN(
            backbone,
            rpn_head=rpn.RPNHead(32, 3, 2 if is_v2 else 1),
            rpn_pre_nms_top_n_train=200,
            rpn_pre_nms_top_n_test=100,
            rpn_post_nms_top_n_train=100,
            rpn_post_nms_top_n_test=80,
            box_head=faster_rcnn.FastRCNNConvFCHead((32, 7, 7), [32, 32], [64], norm)
            if is_v2
            else faster_rcnn.TwoMLPHead(32 * 49, 64),
            box_predictor=faster_rcnn.FastRCNNPredictor(64, CLASSES + 1),
            mask_head=mask_rcnn.MaskRCNNHeads(32, (32, 32), 1, norm),
            mask_predictor=mask_rcnn.MaskRCNNPredictor(32, 32, CLASSES + 1),
            box_detections_per_img=DETECTIONS,
            **options,
        )
    return prepared(model)


def prepared(model: Any) -> Any:
    """Give a model of torchvision its weights; images and results keep their sizes."""
    model.load_state_dict(made_weights({name: value.shape for name, value in model.state_dict().items()}))
    model.transform.resize = lambda image, target: (image, target)
    model.transform.postprocess = lambda result, *_: result
    return model


def as_list(images: Tensor, sizes: Tensor) -> list[Tensor]:
    """Return images as torchvision takes them."""
    return [
        image[:, : int(height)][..., : int(width)] / 255
        for image, (height, width) in zip(images, sizes.tolist(), strict=True)
    ]


# So many samples that nothing is left to chance: every anchor and every proposal counts in the losses.
ALL_OF_THEIRS = {"rpn_batch_size_per_image": 10**6, "box_batch_size_per_image": 10**5, "box_positive_fraction": 0.5}


def counting_all(config: ModelConfig) -> ModelConfig:
    """Return a configuration with as many samples."""
    assert config.rpn is not None
    rpn, box_head = replace(config.rpn, samples=10**6), replace(config.box_head, samples=10**5, positive_fraction=0.5)
    return replace(config, rpn=rpn, box_head=box_head)


def made_targets() -> Targets:
    """Return the objects of three images: two, none and one, and padding; masks are as large as boxes, and end inside."""
    random = torch.Generator().manual_seed(1)
    boxes = torch.zeros(3, 4, 4)
    boxes[0, 1:3] = torch.tensor([[70.0, 20.0, 102.0, 52.0], [90.0, 80.0, 122.0, 112.0]])
    boxes[2, 0] = torch.tensor([40.0, 30.0, 72.0, 62.0])
    labels = torch.zeros(3, 4, dtype=torch.int64)
    labels[0, 1], labels[0, 2], labels[2, 0] = 3, 10, 1
    masks = torch.zeros(3, 4, 32, 32, dtype=torch.uint8)
    masks[:, :, 3:-3, 3:-3] = 255 * torch.randint(0, 2, (3, 4, 26, 26), generator=random, dtype=torch.uint8)
    return Targets(boxes, labels, masks * (labels > 0)[..., None, None])


def as_dicts(targets: Targets, canvas: tuple[int, int] = (128, 160)) -> list[dict[str, Tensor]]:
    """Return objects as torchvision takes them, whose masks are as large as the image."""
    made = []
    for boxes, labels, masks in zip(*targets, strict=True):
        own = labels > 0
        whole = torch.zeros(int(own.sum()), *canvas, dtype=torch.uint8)
        for image, box, mask in zip(whole, boxes[own].long().tolist(), masks[own], strict=True):
            image[box[1] : box[3], box[0] : box[2]] = mask // 255
        made.append({"boxes": boxes[own], "labels": labels[own], "masks": whole})
    return made


def losses_of_theirs(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the losses of torchvision's narrow model in training, and what `summary` says of the gradients by its names."""
    from torchvision.models.detection import roi_heads

    images, sizes = made_images(SEED)
    model = narrow_model(name, **({} if name.startswith("retinanet") else ALL_OF_THEIRS)).train()
    if not name.endswith("_v2"):
        model.backbone.body.eval()  # frozen
    project = roi_heads.project_masks_on_boxes
    # Half a pixel, for which the resizing that `prepared` leaves out makes up.
    with mock.patch.object(
        roi_heads, "project_masks_on_boxes", lambda masks, boxes, *rest: project(masks, boxes - 0.5, *rest)
    ):
        losses = model(as_list(images, sizes), as_dicts(made_targets()))
    torch.stack([*losses.values()]).sum().backward()
    gradients = {
        key: summary(key, value.grad)
        for key, value in model.named_parameters()
        if ".bn" not in key and "downsample.1" not in key
    }
    return {key: value.detach() for key, value in losses.items()}, gradients


def summary(name: str, gradient: Tensor) -> Tensor:
    """Return the norm of a gradient, and how far it leads in a direction that its name makes."""
    random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    direction = torch.randn(gradient.shape, generator=random)
    return torch.stack([gradient.norm(), (gradient * direction).sum()])


def check_detections(found: Detections, number: int, theirs: Mapping[str, Tensor], side: float) -> None:
    """Assert that an image's detections are those of torchvision, to 1e-4 of the image's side and of scores and masks.

    Detections of nearly equal scores may have changed places.
    """
    count = len(theirs["scores"])
    boxes, scores, labels = found.boxes[number, :count], found.scores[number, :count], found.labels[number, :count]
    assert int((found.labels[number] > 0).sum()) == count
    torch.testing.assert_close(scores, theirs["scores"], rtol=0, atol=1e-4)
    apart = (boxes[:, None] - theirs["boxes"]).abs().amax(2) + torch.where(labels[:, None] == theirs["labels"], 0, 1e6)
    place, _ = linear_assignment(apart.T[None])
    assert apart.T.gather(1, place[0][:, None]).max() < 1e-4 * side
    if "masks" in theirs:
        assert found.masks is not None
        torch.testing.assert_close(found.masks[number, place[0]], theirs["masks"][:, 0], rtol=0, atol=1e-4)


def check_losses(model: nn.Module, name: str, losses: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
    """Assert that a model loses what torchvision's does, and that its gradients lead where torchvision's do.

    Norms that are trained here have few values each, and magnify how sums are rounded: between one thread and two, a loss
    of ours changes by 1.2e-4 of itself and a gradient by 6 %.
    """
    most = (1e-3, 0.15) if name.endswith("_v2") else (1e-4, 1e-3)
    images, sizes = made_images(SEED)
    ours = model.train()(images, sizes, made_targets())
    assert set(ours) == set(losses)
    for key, value in losses.items():
        torch.testing.assert_close(ours[key].detach(), value, rtol=most[0], atol=1e-6)
    torch.stack([*ours.values()]).sum().backward()
    parameters = dict(model.named_parameters())
    for key, wanted in gradients.items():
        gradient = parameters[our_name(key)].grad
        assert gradient is not None, key
        error = (summary(key, gradient) - wanted).abs().max() / wanted[0]
        assert error < most[1], (key, wanted)
