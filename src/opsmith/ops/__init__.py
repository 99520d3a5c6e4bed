"""Operators made with opsmith, through its public API alone: each folder holds a definition, its kernels and a module.

What kernels share lies in `_gpu` (PTX instructions), `_cpu`, `_boxes` (RoIs) and `_filters` (StyleGAN's filters).
`stylegan`, `mmcv` and `detectron2` are these operators under other libraries' names.
"""
