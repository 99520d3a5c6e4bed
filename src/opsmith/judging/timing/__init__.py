"""Times an accepted candidate from outside of its process, against rivals and against what the machine can do."""
