"""The records of a trail: parse one as a value, or many at once into columns."""
