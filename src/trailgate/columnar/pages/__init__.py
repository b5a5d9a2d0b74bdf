"""Code pages: bytes to text and back, for whole columns."""
