"""Declares, loads and registers operators, and makes them compose with PyTorch."""
