"""The operators that profiles are tested with."""
