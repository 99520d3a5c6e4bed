"""Operators made with opsmith, through its public API alone: each folder holds a definition, its kernels and a module.

`stylegan` and `mmcv` are these operators under the names that others gave to them.
"""
