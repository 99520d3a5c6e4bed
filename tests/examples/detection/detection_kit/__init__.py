"""What the tests of examples/detection share."""
