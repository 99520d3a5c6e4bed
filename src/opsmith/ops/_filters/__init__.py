"""Holds what the operators on images share: reading filters in Python, taps, rows and activations in kernels."""
