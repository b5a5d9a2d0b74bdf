"""Delimited event publications, read by the delimited engine and written."""
