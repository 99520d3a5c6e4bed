"""Configurations: files that extend others, overrides, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from opsmith_detection.config import ConfigError, as_yaml, load_config, parse_config


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_extends_another_and_overrides_win(tmp_path: Path):
    written(tmp_path, "base.yaml", "solver: {rate: 0.5, steps: 7}\nmodel: {mask_head: null}")
    path = written(tmp_path, "run.yaml", "base: base.yaml\nsolver: {steps: 8}\nmodel: {mask_head: {convs: 2}}")
    config = load_config(path, ["solver.ema=0.9", "data.canvases=[[64, 32]]"])
    assert (config.solver.rate, config.solver.steps, config.solver.ema) == (0.5, 8, 0.9)
    assert config.model.mask_head is not None and config.model.mask_head.convs == 2 and config.model.has_masks
    assert config.data.canvases == ((64, 32),)
    assert parse_config(as_yaml(config)) == config
    assert not load_config(path, ["model.mask_head=null"]).model.has_masks


@pytest.mark.parametrize(
    "name",
    ["2026", "2026-11-29", "2026-11-29T10:00", "2026_11_29", "007", "no", "10:30", "1e5", "~/runs", "0x1f", "true"],
)
def test_a_folder_has_the_name_that_is_given(name: str):
    config = load_config(None, [f"output={name}"])
    assert config.output == Path(name)
    assert parse_config(as_yaml(config)) == config


def test_numbers_and_switches_may_be_written_as_usual():
    given = ["solver.rate=1e-3", "solver.steps=90_000", "deterministic=yes", "graph=False", "solver.ema=~", "seed=0"]
    config = load_config(None, given)
    assert (config.solver.rate, config.solver.steps, config.solver.ema, config.seed) == (1e-3, 90_000, None, 0)
    assert config.deterministic and not config.graph


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    (tmp_path / "run.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(ConfigError, match=r"run\.yaml cannot be read: it is not text in UTF-8"):
        load_config(tmp_path / "run.yaml")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("base: run.yaml", [], r"extends itself: run\.yaml -> run\.yaml"),
        ("base: other.yaml", [], r"other\.yaml cannot be read: No such file"),
        ("- 1", ["seed=1"], "has list at its top level"),
        ("a: [", [], "is not YAML"),
        ("solver: {rat: 1}", [], r"solver\.rat: Unexpected"),
        ("solver: {steps: many}", [], r"solver\.steps: .*found 'many'"),
        ("", ["seed"], "'seed' is not an override"),
        ("", ["seed.a=1"], r"seed: .*found \{'a': '1'\}"),
        ("", ["data.canvases=[[800, 1333]]"], r"data\.canvases\.0\.1: .* multiple of 32 \(found '1333'\)$"),
        ("", ["data.canvases=[[0, 64]]"], r"canvases\.0\.0: .*greater than or equal to 32 \(found '0'\)$"),
        ("", ["data.canvases=[]"], r"canvases: .*at least 1"),
        ("", ["solver.ema=off"], r"solver\.ema: .*found 'off'"),
        ("", ["solver.steps=yes"], r"solver\.steps: .*found 'yes'"),
        ("", ["data.batch=true"], r"data\.batch: .*valid integer.* \(found 'true'\)$"),
        ("", ["model.mean=[0, 0, false]"], r"model\.mean\.2: .*valid number"),
        ("", ["output=null"], r"output: .*not a valid path"),
        ("", ["data.shorter_sides=[]"], r"shorter_sides: .*at least 1"),
        ("", ["data.shorter_sides=[0]"], r"shorter_sides\.0: .*greater than 0"),
        ("", ["data.max_objects=0"], r"max_objects: .*greater than 0"),
        ("", ["data.batch=0"], r"batch: .*greater than 0"),
        ("", ["data.workers=-1"], r"workers: .*greater than or equal to 0"),
        ("", ["seed=-1"], r"seed: .*greater than or equal to 0"),
        ("", ["data.flip=50"], r"flip: .*less than or equal to 1"),
        ("", ["solver.milestones=[60000, 80000]"], r"milestones\.0: .*less than or equal to 1 \(found '60000'\)"),
        ("", ["solver.rate=nan"], r"rate: .*finite"),
        *(
            ("", [f"solver.{name}=0"], rf"{name}: .*greater than 0")
            for name in ("steps", "accumulate", "checkpoints", "checkpoint_every", "evaluate_every", "log_every")
        ),
        ("", ["model.backbone.depth=20"], r"backbone\.depth: .*18, 34, 50 or 101 \(found 20\)"),
        ("", ["model.backbone.trainable_stages=6"], r"trainable_stages: .*less than or equal to 5"),
        ("", ["model.backbone.deformable_stages=[7]"], r"deformable_stages\.0: .*less than or equal to 5"),
        ("", ["model.rpn.sizes=[[8], [16]]"], r"rpn\.sizes: .*at least 5"),
        ("", ["model.rpn.sizes=[[8], [16], [16], [32], []]"], r"rpn\.sizes\.4: .*at least 1"),
        (
            "",
            ["model.kind=retinanet", "model.retinanet.norm=true", "model.backbone.pyramid_channels=16"],
            r"model: .*retinanet\.norm=true takes 32 groups",
        ),
        ("", ["model.rpn.sizes=[[8], [16], [16, 32], [32], [64]]"], "rpn: .*give each as many sizes"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, overrides: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, "run.yaml", text), overrides)
