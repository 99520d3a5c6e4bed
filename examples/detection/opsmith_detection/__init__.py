"""Mask R-CNN and RetinaNet, with every data-dependent size padded so that a training step is one CUDA graph."""
