"""Which properties take seconds for every operator, and depend little on what it computes?"""

__all__ = ["LONG", "TRACING"]

# These look at what is registered, by tracing it.
TRACING = frozenset({"compile", "export", "opcheck"})
LONG = TRACING | {"threads", "determinism", "outputs written", "memory growth"}
