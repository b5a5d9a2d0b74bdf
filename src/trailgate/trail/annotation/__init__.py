"""Explain every byte of a trail file: its offset, its meaning and its value."""
