"""Plants faults into an operator's own kernels and counts those that the check finds."""
