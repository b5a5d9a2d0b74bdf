"""Whether records are what they should be: many at once, told as values, never raised."""
