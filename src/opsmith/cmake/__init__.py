"""CMake's package of opsmith: data, found through the `cmake.prefix` entry point."""
