"""`%%opsmith` cells of IPython and Jupyter: a definition and its kernels in one cell, after `%load_ext opsmith`."""

from __future__ import annotations

from opsmith._lazy import lazy_names

__all__ = ["load_ipython_extension"]

__getattr__ = lazy_names(__name__, {"load_ipython_extension": "magic"})
