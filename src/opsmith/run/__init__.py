"""Gives other people's code the drop-in without an edit, for `opsmith run`."""
