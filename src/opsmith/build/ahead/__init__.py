"""Compiles kernels ahead, of Triton and of CUDA C++ through NVRTC: the step of a plan, and the program that it runs."""
