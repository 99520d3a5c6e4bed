"""Holds the properties that are checked, a module for each topic; `table` lists them."""
