"""Compiles Triton kernels ahead: the step of a plan, and the program that it runs."""
