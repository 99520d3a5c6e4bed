"""The detectors: ResNet and feature pyramid, region proposals, heads, and RetinaNet."""

from __future__ import annotations

from opsmith_detection.models.build import build_model

__all__ = ["build_model"]
