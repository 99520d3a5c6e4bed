"""What docs/generate.py makes reference pages of: docstrings, headers and commands."""
