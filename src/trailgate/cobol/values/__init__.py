"""The values of COBOL items: one codec per usage, in both directions, on complete columns."""
