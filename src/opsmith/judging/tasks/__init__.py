"""Reads tasks: a module for each form in which others pose them."""
