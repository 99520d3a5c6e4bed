"""Data sets in COCO's format, batches of fixed shapes, and a data set that is made without a network."""
