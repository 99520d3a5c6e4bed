"""What acts in the processes below `opsmith run`. The folder is on their path as it is, not as this package."""
