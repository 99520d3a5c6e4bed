"""Describes what `check`, `bench` and `profile` work on: an operator, its reference, its inputs and its expected results."""
