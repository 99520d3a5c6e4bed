"""Correct operators: no property may fail for any of them."""
