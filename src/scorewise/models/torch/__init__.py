"""Members of torch modules."""
