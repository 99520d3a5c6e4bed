"""Shows what `opsmith tune` has measured and chosen."""
