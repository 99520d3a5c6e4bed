"""Runs operators under the sanitizers of the host compiler and of CUDA."""
