"""Rows of output made in whole columns."""
