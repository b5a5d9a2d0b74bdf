"""Delimited messages, such as CSV (capture properties §6)."""
