"""Chooses among the configurations of a kernel's launch by measurement; `opsmith tune` is the entry."""
