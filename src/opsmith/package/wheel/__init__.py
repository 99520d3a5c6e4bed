"""Makes wheels that can be published: what they claim is read from what is in them, and they can be built again."""
