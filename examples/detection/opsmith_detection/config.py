"""Typed configurations: frozen dataclasses, read from YAML files, with overrides such as `solver.rate=0.01`.

A file names the one that it extends with `base:`, relative to itself; what it says replaces the same entries there. Apart
from null, scalars are text to YAML: whether 2026 is a number or a folder's name, the type of its entry says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pydantic
import yaml
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter
from pydantic.dataclasses import dataclass

from opsmith_detection.errors import DetectionError, explain

__all__ = [
    "NORM_GROUPS",
    "BackboneConfig",
    "BoxHeadConfig",
    "Config",
    "ConfigError",
    "DataConfig",
    "MaskHeadConfig",
    "ModelConfig",
    "RPNConfig",
    "RetinaNetConfig",
    "SolverConfig",
    "as_yaml",
    "load_config",
    "parse_config",
]

NORM_GROUPS = 32  # of channels, each normalised by itself (Wu and He, 2018)
_STRICT = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)

_T = TypeVar("_T")
_Some = Annotated[tuple[_T, ...], Field(min_length=1)]
_Levels = Annotated[tuple[_T, ...], Field(min_length=5, max_length=5)]  # of the pyramid
_Share = Annotated[float, Field(ge=0, le=1)]
# The pyramid halves a canvas to a 32nd. What is rounded on the way would move the anchors away from their pixels.
_Side = Annotated[int, Field(ge=32, multiple_of=32)]


def _as_number(found: object) -> object:
    """Return text as a number where it is one, which Literal, unlike other types, does not do itself."""
    return int(found) if isinstance(found, str) and found.isdecimal() else found


class ConfigError(DetectionError, ValueError):
    """A configuration that does not exist, does not parse or has an entry that does not fit."""


@dataclass(frozen=True, config=_STRICT)
class BackboneConfig:
    """A ResNet (He et al., 2015) with a feature pyramid (Lin et al., 2016) on it."""

    depth: Annotated[Literal[18, 34, 50, 101], pydantic.BeforeValidator(_as_number)] = 50
    width: PositiveInt = 64  # channels of the stem; the stages have 1, 2, 4 and 8 times as many in their narrow layers
    norm: Literal["frozen", "batch", "sync"] = "frozen"
    trainable_stages: Annotated[int, Field(ge=0, le=5)] = 3  # from the last one back; 5 trains the stem, too
    deformable_stages: tuple[Annotated[int, Field(ge=2, le=5)], ...] = ()  # whose 3x3 convolutions are DCN v2
    pyramid_channels: PositiveInt = 256
    pyramid_norm: bool = False  # batch norm behind its convolutions, as torchvision's v2 models of two stages have
    weights: Path | None = None  # a state dict of the ResNet alone, in torchvision's names

    @property
    def trained_norm(self) -> Literal["batch", "sync"]:
        """Which batch norm there is outside of the ResNet, where none is frozen."""
        return "sync" if self.norm == "sync" else "batch"


@dataclass(frozen=True, config=_STRICT)
class RPNConfig:
    """Region proposals (Ren et al., 2015)."""

    convs: NonNegativeInt = 1  # torchvision's v2 models have two
    sizes: _Levels[_Some[PositiveFloat]] = ((32.0,), (64.0,), (128.0,), (256.0,), (512.0,))  # of anchors, by level
    ratios: _Some[PositiveFloat] = (0.5, 1.0, 2.0)  # height to width
    foreground_iou: _Share = 0.7
    background_iou: _Share = 0.3
    samples: PositiveInt = 256  # anchors of an image that count in the loss
    positive_fraction: _Share = 0.5
    candidates: tuple[PositiveInt, PositiveInt] = (2000, 1000)  # of each level before NMS, in training and in inference
    proposals: tuple[PositiveInt, PositiveInt] = (2000, 1000)  # of an image after NMS, in training and in inference
    nms_iou: _Share = 0.7
    min_size: NonNegativeFloat = 1e-3

    @pydantic.model_validator(mode="after")
    def _levels_are_alike(self) -> RPNConfig:
        if len({len(level) for level in self.sizes}) > 1:
            raise ValueError("one convolution predicts all levels: give each as many sizes")
        return self


@dataclass(frozen=True, config=_STRICT)
class BoxHeadConfig:
    """Classes and boxes of proposals (Girshick, 2015)."""

    pooled: PositiveInt = 7
    convs: NonNegativeInt = 0  # of 3x3 with batch norm before the linear layers; torchvision's v2 models have four
    linears: NonNegativeInt = 2
    channels: PositiveInt = 1024
    samples: PositiveInt = 512  # proposals of an image that count in the loss
    positive_fraction: _Share = 0.25
    foreground_iou: _Share = 0.5
    score_threshold: _Share = 0.05
    candidates: PositiveInt = 4000  # pairs of a box and a class, of an image, that go into NMS
    nms_iou: _Share = 0.5
    detections: PositiveInt = 100


@dataclass(frozen=True, config=_STRICT)
class MaskHeadConfig:
    """Masks of proposals (He et al., 2017)."""

    pooled: PositiveInt = 14
    convs: NonNegativeInt = 4
    channels: PositiveInt = 256
    norm: bool = False  # batch norm behind each convolution, as torchvision's v2 model has


@dataclass(frozen=True, config=_STRICT)
class RetinaNetConfig:
    """Dense detection with focal loss (Lin et al., 2017)."""

    convs: NonNegativeInt = 4
    norm: bool = False  # group norm behind each convolution, as torchvision's v2 model has
    extra_levels_from: Literal["c5", "p5"] = "p5"  # what levels 6 and 7 are made of; v2: c5
    base_sizes: _Levels[PositiveFloat] = (32.0, 64.0, 128.0, 256.0, 512.0)
    scales: _Some[PositiveFloat] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    ratios: _Some[PositiveFloat] = (0.5, 1.0, 2.0)
    foreground_iou: _Share = 0.5
    background_iou: _Share = 0.4
    box_loss: Literal["l1", "giou"] = "l1"
    candidates: PositiveInt = 1000  # of each level
    score_threshold: _Share = 0.05
    nms_iou: _Share = 0.5
    detections: PositiveInt = 300


@dataclass(frozen=True, config=_STRICT)
class ModelConfig:
    """A detector: a two-stage one, or RetinaNet."""

    kind: Literal["rcnn", "retinanet"] = "rcnn"
    classes: PositiveInt = 90  # labels 1 to `classes`; torchvision's models of COCO have 90
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of RGB values from 0 to 1
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] = (0.229, 0.224, 0.225)
    backbone: BackboneConfig = BackboneConfig()
    rpn: RPNConfig | None = RPNConfig()  # None: Fast R-CNN, to which proposals are given
    box_head: BoxHeadConfig = BoxHeadConfig()
    mask_head: MaskHeadConfig | None = MaskHeadConfig()  # None: Faster R-CNN
    retinanet: RetinaNetConfig = RetinaNetConfig()
    recompute: bool = False  # activations of the ResNet, masks and RetinaNet's heads, instead of keeping them

    @pydantic.model_validator(mode="after")
    def _parts_fit(self) -> ModelConfig:
        head = self.mask_head if self.has_masks else None
        if self.recompute and (self.backbone.norm != "frozen" or (head is not None and head.norm)):
            raise ValueError("recompute=true takes frozen norms: the statistics of others would count each batch twice")
        if self.kind == "retinanet" and self.retinanet.norm and self.backbone.pyramid_channels % NORM_GROUPS:
            raise ValueError(
                f"retinanet.norm=true takes {NORM_GROUPS} groups of channels: set backbone.pyramid_channels to a multiple"
            )
        return self

    @property
    def has_masks(self) -> bool:
        """Whether masks are learnt and found."""
        return self.kind == "rcnn" and self.mask_head is not None


@dataclass(frozen=True, config=_STRICT)
class DataConfig:
    """Data sets in COCO's format, and the shapes that images come in."""

    train: Path = Path("digits/train.json")
    test: Path = Path("digits/test.json")
    train_images: Path | None = None  # the folder of its images; None: that of the annotations
    test_images: Path | None = None
    labels: Literal["ids", "contiguous"] = "ids"  # labels are the categories' ids, or 1, 2, 3, ... in their order
    exif: Literal["auto", "apply", "ignore"] = "auto"  # are images turned? auto: unless sizes are of stored pixels
    shorter_sides: _Some[PositiveInt] = (800,)  # one is drawn for each image in training, the last one is for tests
    longest_side: PositiveInt = 1333
    canvases: _Some[tuple[_Side, _Side]] = ((800, 1344), (1344, 800))  # heights and widths of batches
    max_objects: PositiveInt = 100
    mask_resolution: PositiveInt = 112
    flip: _Share = 0.5  # probability
    batch: PositiveInt = 8  # images of a step on each device
    workers: NonNegativeInt = 4


@dataclass(frozen=True, config=_STRICT)
class SolverConfig:
    """How a model is trained."""

    optimizer: Literal["sgd", "adamw"] = "sgd"
    rate: NonNegativeFloat = 0.02  # for 16 images
    momentum: _Share = 0.9
    weight_decay: NonNegativeFloat = 1e-4
    norm_weight_decay: NonNegativeFloat | None = None  # of normalisations' weights and biases; None: as for all others
    steps: PositiveInt = 90_000
    warm_up_steps: NonNegativeInt = 500
    schedule: Literal["steps", "cosine"] = "steps"
    milestones: tuple[_Share, ...] = (2 / 3, 8 / 9)  # of the steps, where the rate drops to a tenth
    clip_norm: PositiveFloat | None = None
    accumulate: PositiveInt = 1  # batches of a step
    ema: _Share | None = None  # decay of the averages, of weights and batch norms' statistics, that are evaluated
    precision: Literal["float32", "tf32", "bfloat16"] = "bfloat16"
    checkpoint_every: PositiveInt = 1000
    checkpoints: PositiveInt = 3  # how many of the last ones are kept
    evaluate_every: PositiveInt = 5000
    log_every: PositiveInt = 20


@dataclass(frozen=True, config=_STRICT)
class Config:
    """A run: a model, its data and how it is trained."""

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    solver: SolverConfig = SolverConfig()
    seed: NonNegativeInt = 0
    deterministic: bool = False  # the same bits in every run
    graph: bool = True  # one CUDA graph a step, where there is a GPU
    distributed: Literal["ddp", "fsdp"] = "ddp"
    output: Path = Path("runs/detection")


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, or take the defaults, and replace entries such as `solver.rate=0.01`, whose values are YAML.

    Raises:
        ConfigError: a file is missing or no YAML, or an entry is unknown or does not fit its type.
    """
    return _validated({} if path is None else _read(path, ()), overrides, str(path or "the configuration"))


def parse_config(text: str, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration that `as_yaml` wrote, as `load_config` reads a file."""
    return _validated(_parsed(text, "the configuration"), overrides, "the configuration")


def as_yaml(config: Config) -> str:
    """Write a configuration so that `load_config` reads it again."""
    return yaml.safe_dump(TypeAdapter(Config).dump_python(config, mode="json"), sort_keys=False)


def _validated(entries: dict[str, Any], overrides: Sequence[str], where: str) -> Config:
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"{override!r} is not an override: write name=value, such as solver.rate=0.01")
        nested = _parsed(value, override)
        for part in reversed(name.split(".")):
            nested = {part: nested}
        entries = _merged(entries, nested)
    try:
        return TypeAdapter(Config).validate_python(entries)
    except pydantic.ValidationError as error:
        raise ConfigError(f"{where} does not fit:\n{explain(error)}") from None


def _read(path: Path, extending: tuple[Path, ...]) -> Any:
    path = path.resolve()
    if path in extending:
        raise ConfigError(f"{path} extends itself: {' -> '.join(p.name for p in (*extending, path))}")
    try:
        entries = _parsed(path.read_text(encoding="utf-8"), str(path)) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', 'it is not text in UTF-8')}") from None
    if not isinstance(entries, dict):
        raise ConfigError(f"{path} has {type(entries).__name__} at its top level; expected `name: value` entries")
    base = entries.pop("base", None)
    return entries if base is None else _merged(_read(path.parent / str(base), (*extending, path)), entries)


class _Loader(yaml.SafeLoader):  # which knows null and merging (<<), and leaves all other scalars as text
    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _parsed(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from None


def _merged(below: Any, above: Any) -> Any:
    """Return the entries of both, those above where both have one."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}
