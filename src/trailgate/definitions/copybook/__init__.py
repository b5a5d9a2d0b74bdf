"""Copybooks: COBOL record descriptions to the layout model."""
