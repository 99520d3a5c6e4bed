"""Describes operators and extensions as frozen data; nothing here needs a device or reads a kernel's file."""
