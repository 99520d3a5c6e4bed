"""Makes wheels that do without opsmith: what an operator needs at run time is copied into the project's own package."""
