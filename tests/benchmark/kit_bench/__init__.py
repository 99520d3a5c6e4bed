"""Operators for the tests of `opsmith bench`."""
