"""Column values in trail form and back, whole columns at once."""
