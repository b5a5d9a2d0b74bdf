"""Whether records are what they should be: many at once, as values, never raised."""
