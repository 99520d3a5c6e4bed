"""Describes operators and extensions as frozen data; needs no device and reads no kernel file."""
