"""Runs in processes below `opsmith run`: the folder is on their path as it is, not as this package."""
