"""The operators that tests/compose holds to PyTorch's features, and how they are called."""
