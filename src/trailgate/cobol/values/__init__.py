"""The values of COBOL items: one codec a usage, both directions, on whole columns."""
