"""Compiles the variants of one kernel, and makes an object of them: a program that a step of a plan runs.

    python compile_kernels --by triton REQUEST KERNEL.py --image cubin:90 -MF DEPFILE -o OBJECT -- g++ ...
    python compile_kernels --by nvrtc REQUEST KERNEL.cu --library libnvrtc.so.13 --image cubin:90 -MF ... -- g++ ...

No GPU is needed. It imports nothing of opsmith, so that it runs wherever Triton does: its folder is the program.
"""
