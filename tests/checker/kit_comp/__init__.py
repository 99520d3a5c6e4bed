"""Small operators with one defect each, and the same without it: gradients, tracing, transformations."""
