"""Compiles the variants of one Triton kernel, and makes an object of them: a program that a step of a plan runs.

    python compile_kernels REQUEST KERNEL.py --image cubin:90 -MF DEPFILE -o OBJECT -- g++ ...

No GPU is needed. It imports nothing of opsmith, so that it runs wherever Triton does: its folder is the program.
"""
