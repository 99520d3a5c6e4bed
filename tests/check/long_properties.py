"""Which properties take seconds for every operator, and depend little on what it computes?"""

LONG = frozenset({"threads", "determinism", "outputs written", "memory growth"})
