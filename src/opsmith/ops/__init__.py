"""Operators made with opsmith, through its public API alone: each folder holds a definition, its kernels and a module."""
