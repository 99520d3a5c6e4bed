"""Operators that are mutated in tests: none of them is loaded there."""
