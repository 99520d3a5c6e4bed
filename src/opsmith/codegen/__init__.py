"""Generates C++ bindings and type stubs from definitions: text in, text out."""
