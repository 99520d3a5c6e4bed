"""How somebody else's code gets the drop-in without an edit: what `opsmith run` sets up, and what acts in its processes."""
