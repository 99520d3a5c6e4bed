"""Operators to check, each with one defect or none; `kernels.cpp` says which."""
