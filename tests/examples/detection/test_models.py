"""What holds for every model: nothing waits for the host, nothing depends on the data, and padding is no object."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from detection_kit.waiting import Refusing, refusing_to_wait
from opsmith_detection.config import (
    BackboneConfig,
    BoxHeadConfig,
    MaskHeadConfig,
    ModelConfig,
    RetinaNetConfig,
    load_config,
)
from opsmith_detection.engine.graphs import EAGER
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.engine.step import autocast
from opsmith_detection.models import build_model
from opsmith_detection.models.box_head import pool
from opsmith_detection.models.layers import ConvNorm
from opsmith_detection.models.weights import WeightsError, load_backbone, load_torchvision
from opsmith_detection.structures import Batch, Targets
from torch import Tensor, nn

pytestmark = pytest.mark.compile

SMALL = ModelConfig(
    classes=5,
    backbone=BackboneConfig(depth=18, width=8, norm="batch", trainable_stages=5, pyramid_channels=32),
    box_head=BoxHeadConfig(channels=32, samples=32, detections=10),
    mask_head=MaskHeadConfig(convs=1, channels=16),
    retinanet=RetinaNetConfig(convs=1, detections=10),
)
MODELS = {
    "mask": SMALL,
    "frozen": replace(SMALL, backbone=replace(SMALL.backbone, norm="frozen", trainable_stages=3)),
    "recompute": replace(SMALL, recompute=True, backbone=replace(SMALL.backbone, norm="frozen", trainable_stages=3)),
    "bottleneck": replace(SMALL, backbone=replace(SMALL.backbone, depth=50)),
    "deformable": replace(SMALL, backbone=replace(SMALL.backbone, deformable_stages=(4, 5))),
    "norms": replace(
        SMALL,
        backbone=replace(SMALL.backbone, norm="sync", pyramid_norm=True),
        box_head=replace(SMALL.box_head, convs=1, linears=1),
        mask_head=MaskHeadConfig(convs=1, channels=16, norm=True),
    ),
    "faster": replace(SMALL, mask_head=None),
    "retinanet": replace(SMALL, kind="retinanet"),
    "retinanet_v2": replace(
        SMALL,
        kind="retinanet",
        retinanet=replace(SMALL.retinanet, norm=True, box_loss="giou", extra_levels_from="c5"),
    ),
}


def batch() -> tuple[Tensor, Tensor, Targets]:
    """Return two images of 96 x 128 and their objects: three, and one."""
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 3, 96, 128), generator=random, dtype=torch.uint8)
    boxes = torch.zeros(2, 4, 4)
    boxes[0, :3] = torch.tensor([[5.0, 8, 60, 50], [40, 40, 100, 90], [70, 10, 90, 24]])
    boxes[1, 0] = torch.tensor([20.0, 10, 80, 70])
    labels = torch.tensor([[1, 5, 2, 0], [3, 0, 0, 0]])
    masks = torch.randint(0, 256, (2, 4, 14, 14), generator=random, dtype=torch.uint8)
    return images, torch.tensor([[96.0, 128.0], [80.0, 100.0]]), Targets(boxes, labels, masks)


def built(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build_model(MODELS[name])


def total(losses: dict[str, Tensor]) -> Tensor:
    return torch.stack([*losses.values()]).sum()


@pytest.mark.parametrize("name", MODELS)
def test_a_step_and_inference_wait_for_nothing(name):
    model = built(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, sizes, targets = batch()
    with Refusing():
        total(model(images, sizes, targets)).backward()
        optimizer.step()
        with torch.no_grad():
            model.eval()(images, sizes)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)


def test_gradients_of_a_pyramid_lie_as_its_levels_do():
    """Whatever the layer behind the pooling does, since they are added to those of convolutions."""
    levels = [torch.randn(1, 4, 32 // 2**i, 32 // 2**i).contiguous(memory_format=torch.channels_last) for i in range(4)]
    boxes = torch.tensor([[[1.0, 2.0, 30.0, 40.0], [5.0, 5.0, 120.0, 120.0]]])
    pooled = pool([level.requires_grad_() for level in levels], boxes, torch.ones(1, 2, dtype=torch.bool), 3)
    found = torch.autograd.grad(pooled.flatten(1).square().sum(), levels)
    assert all(gradient.is_contiguous(memory_format=torch.channels_last) for gradient in found)
    assert any(gradient.any() for gradient in found)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_a_step_and_inference_wait_for_no_gpu(name):
    model = built(name).cuda()
    images, sizes, targets = batch()
    images, sizes, targets = images.cuda(), sizes.cuda(), Targets(*(each.cuda() for each in targets))

    def run() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            total(model.train()(images, sizes, targets)).backward()
            with torch.no_grad():
                model.eval()(images, sizes)

    run()  # builds, and what is made once for each canvas
    with refusing_to_wait():
        run()


@pytest.mark.slow("traces models with TorchDynamo")
@pytest.mark.parametrize("name", ["mask", "retinanet"])
def test_nothing_depends_on_the_data(name):
    """One graph has the losses and their gradients, so sizes are the same for all images and objects."""
    model = built(name)
    images, sizes, targets = batch()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.manual_seed(1)
    losses = compiled(images, sizes, targets)
    total(losses).backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    assert all(gradient.isfinite().all() for gradient in gradients)
    if name == "retinanet":  # nothing is drawn
        fresh = built(name)
        total(fresh(images, sizes, targets)).backward()
        for parameter, gradient in zip(fresh.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-3 * float(gradient.abs().max()))


def changed(targets: Targets, case: str) -> Targets:
    boxes, labels = targets.boxes.clone(), targets.labels.clone()
    if case == "none":
        labels[:] = 0
        boxes[:] = 0
    elif case == "none in one":
        labels[1] = 0
        boxes[1] = 0
    elif case == "no area":
        boxes[0, 0, 2] = boxes[0, 0, 0]
        boxes[1, 0] = torch.tensor([60.0, 60, 20, 20])  # the other way round
    elif case == "all the same":
        boxes[:], labels[:] = boxes[0, 0], 4
    return targets._replace(boxes=boxes, labels=labels)


@pytest.mark.parametrize("case", ["none", "none in one", "no area", "all the same"])
@pytest.mark.parametrize("name", ["mask", "norms", "retinanet", "retinanet_v2"])
def test_losses_and_gradients_are_numbers_whatever_the_objects(name, case):
    model = built(name)
    images, sizes, targets = batch()
    losses = model(images, sizes, changed(targets, case))
    assert all(loss.isfinite() for loss in losses.values()), losses
    total(losses).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["mask", "retinanet"])
def test_padding_is_no_object(name):
    images, sizes, targets = batch()
    fewer = Targets(*(each[:, :3] for each in targets))
    more = Targets(*(torch.cat([each, torch.zeros_like(each)], 1) for each in targets))
    losses = []
    for each in (fewer, more):
        model = built(name)
        torch.manual_seed(0)
        losses.append(model(images, sizes, each))
    # What is drawn from the proposals changes with their number.
    for key in losses[0] if name == "retinanet" else ("loss_objectness", "loss_rpn_box_reg"):
        torch.testing.assert_close(losses[0][key], losses[1][key])


def test_what_lies_around_an_image_does_not_matter():
    model = built("mask").eval()
    images, sizes, _ = batch()
    with torch.no_grad():
        clean = model(images, sizes)
        images[1, :, 80:] = 77
        images[1, :, :, 100:] = 200
        dirty = model(images, sizes)
    for one, other in zip(clean, dirty, strict=True):
        assert one.equal(other)
    assert (clean.boxes[1] <= torch.tensor([100.0, 80.0, 100.0, 80.0])).all()


@pytest.mark.parametrize("name", ["mask", "norms"])
def test_equal_proposals_and_none_are_numbers(name):
    """Fast R-CNN: proposals that are given, all the same, and only padding."""
    model = build_model(replace(MODELS[name], rpn=None))
    images, sizes, targets = batch()
    proposals = torch.tensor([10.0, 10.0, 50.0, 60.0]).expand(2, 20, 4).clone()
    proposals[1] = 0
    for objects in (targets, changed(targets, "none")):
        losses = model(images, sizes, objects, proposals)
        total(losses).backward()
        assert all(loss.isfinite() for loss in losses.values())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    with torch.no_grad():
        found = model.eval()(images, sizes, proposals=proposals)
    assert (found.labels[1] == 0).all() and (found.boxes[1] == 0).all()
    with pytest.raises(ValueError, match="proposals"):
        model(images, sizes)


@pytest.mark.parametrize("inference", [False, True])
def test_frozen_weights_are_folded_once_and_stay_where_graphs_read_them(inference: bool):
    model = built("frozen").eval().requires_grad_(False)
    images, sizes, _ = batch()
    conv = model.backbone.conv1

    def features() -> Tensor:
        with torch.inference_mode(inference), torch.no_grad():
            return model.backbone(model.normalise(images, sizes))[0].clone()

    def weight() -> Tensor:
        (folded,) = conv._folded.values()
        return folded.weight

    before, place = features(), weight().data_ptr()
    made_of = next(iter(conv._folded.values())).made_of
    model.train()
    model.eval()
    assert features().equal(before)
    assert next(iter(conv._folded.values())).made_of is made_of
    conv.norm.scale.mul_(2)
    changed = features()
    assert not changed.equal(before)
    other = {name: 2 * value if name.endswith("conv.weight") else value for name, value in model.state_dict().items()}
    kept = weight().clone()
    model.load_state_dict(other)
    torch.testing.assert_close(weight(), 2 * kept)  # before a call asks for it
    assert not features().equal(changed)
    assert weight().data_ptr() == place


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["frozen", "mask"])
def test_a_graph_of_inference_outlives_training(name):
    model = built(name).eval().cuda()
    images, sizes, _ = batch()
    given = Batch(images.cuda(), sizes.cuda(), torch.arange(2, device="cuda"), None)
    predictor = Predictor(model, load_config(None, []), torch.device("cuda"))
    for _ in range(EAGER + 1):
        predictor(given)
    before = [each.clone() for each in predictor(given) if each is not None]
    model.train()
    model.eval()
    others = [torch.full((size,), 7.0, device="cuda") for size in (64, 1 << 10, 1 << 14, 1 << 18) for _ in range(200)]
    after = [each.clone() for each in predictor(given) if each is not None]
    del others
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("threshold", [0.0, 0.19, 1.0])
def test_masks_of_padding_can_be_skipped(threshold):
    torch.manual_seed(0)
    model = build_model(replace(SMALL, box_head=replace(SMALL.box_head, score_threshold=threshold))).eval()
    images, sizes, _ = batch()
    with torch.no_grad():
        whole = model(images, sizes)
        model.skips_padding = True
        skipped = model(images, sizes)
    for one, other in zip(whole, skipped, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["frozen", "norms", "retinanet_v2"])
def test_activations_stay_in_channels_last(name):
    model = built(name).eval()
    images, sizes, _ = batch()
    others = []

    def look(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not inputs[0].is_contiguous(memory_format=torch.channels_last):
            others.append(module)

    for module in model.modules():
        if isinstance(module, ConvNorm):
            module.register_forward_pre_hook(look)
    with torch.no_grad():
        model(images, sizes)
    assert not others


def test_activations_of_masks_are_not_kept_for_the_backward(monkeypatch: pytest.MonkeyPatch):
    """At their resolution they are the largest of a step: they are made again, some RoIs at a time, with the same result."""
    images, sizes, targets = batch()
    found = {}
    for at_once in (7, 1 << 20):
        monkeypatch.setattr("opsmith_detection.models.mask_head._AT_ONCE", at_once)
        torch.manual_seed(0)
        model = build_model(SMALL).train()
        kept: set[tuple[int, ...]] = set()

        def pack(tensor: Tensor, kept: set[tuple[int, ...]] = kept) -> Tensor:
            kept.add(tuple(tensor.shape))
            return tensor

        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            losses = model(images, sizes, targets)
        assert any(shape[1:] == (16, 14, 14) for shape in kept)
        assert not any(shape[1:] in {(16, 28, 28), (784, 16)} for shape in kept)
        torch.stack([*losses.values()]).sum().backward()
        found[at_once] = [losses["loss_mask"].detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["rcnn", "retinanet"])
def test_what_is_recomputed_is_not_kept_and_changes_nothing(kind, precision):
    images, sizes, targets = batch()
    config = replace(MODELS["frozen"], kind=kind)
    kept, found = {}, {}
    for recompute in (False, True):
        torch.manual_seed(0)
        model = build_model(replace(config, recompute=recompute)).train()
        storages: dict[int, int] = {}

        def pack(tensor: Tensor, storages: dict[int, int] = storages) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        torch.manual_seed(1)
        keeping = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with autocast(torch.device("cpu"), precision), keeping:
            losses = model(images, sizes, targets)
        kept[recompute] = sum(storages.values())
        total(losses).backward()
        found[recompute] = [*losses.values(), *(p.grad for p in model.parameters() if p.grad is not None)]
    # The RPN keeps nothing of most anchors in either.
    assert kept[True] < {"rcnn": 0.8, "retinanet": 0.5}[kind] * kept[False]
    # A weight's gradient is a sum over parts, which are rounded to 16 bits one by one.
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if precision == "float32" else {"rtol": 0.05, "atol": 2e-3}
    for one, other in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(one, other, **tolerance)


def test_norms_of_a_batch_are_not_recomputed():
    for config in (MODELS["mask"], replace(MODELS["frozen"], mask_head=MaskHeadConfig(norm=True))):
        with pytest.raises(ValueError, match="count each batch twice"):
            replace(config, recompute=True)


def test_stages_that_are_not_trained_have_no_gradient():
    model = built("frozen")
    images, sizes, targets = batch()
    total(model(images, sizes, targets)).backward()
    has = {name for name, parameter in model.backbone.named_parameters() if parameter.grad is not None}
    assert {name.split(".")[0] for name in has} == {"layer2", "layer3", "layer4"}


def test_weights_of_another_model_are_refused():
    with pytest.raises(WeightsError, match="missing"):
        load_torchvision(built("mask"), {})
    with pytest.raises(WeightsError, match="do not fit"):
        load_backbone(built("mask"), {"conv1.weight": torch.zeros(1, 3, 7, 7)})
