"""Holds what the operators on boxes share: reading boxes in Python, tiles and channels of features on a GPU."""
