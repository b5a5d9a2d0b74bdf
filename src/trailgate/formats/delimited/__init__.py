"""Delimited messages (capture properties §6)."""
