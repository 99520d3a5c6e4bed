"""Turns operators into packages that can be published: what a wheel promises, and whether that is true."""
