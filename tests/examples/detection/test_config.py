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
    ("text", "overrides", "message"),
    [
        ("base: run.yaml", [], r"extends itself: run\.yaml -> run\.yaml"),
        ("base: other.yaml", [], r"other\.yaml cannot be read: No such file"),
        ("- 1", ["seed=1"], "has list at its top level"),
        ("a: [", [], "is not YAML"),
        ("solver: {rat: 1}", [], r"solver\.rat: Unexpected"),
        ("solver: {steps: many}", [], r"solver\.steps: .*found 'many'"),
        ("", ["seed"], "'seed' is not an override"),
        ("", ["seed.a=1"], r"seed: .*found \{'a': 1\}"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, overrides: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, "run.yaml", text), overrides)
