"""What the tests of derived rules run over."""
