"""Observes what a kernel does to memory: guarded allocations, margins around inputs, and the calls made inside them."""
