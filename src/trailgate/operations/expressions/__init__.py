"""Expressions of parameter files: text to trees, and trees over blocks of changes to columns."""
