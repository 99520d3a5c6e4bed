"""Runs the tasks of a check in child processes, within a budget of time."""
