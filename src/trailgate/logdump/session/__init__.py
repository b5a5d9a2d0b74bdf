"""A session: what is open, where it is, and what commands yield."""
