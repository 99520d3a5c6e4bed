"""Draws proofs."""
