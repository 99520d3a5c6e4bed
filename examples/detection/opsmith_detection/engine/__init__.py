"""What trains a model: steps, optimizers, checkpoints, several processes, progress."""
