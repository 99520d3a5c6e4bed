"""Holds opsmith's CMake package: data, found through the `cmake.prefix` entry point."""
