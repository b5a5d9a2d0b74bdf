"""Publish all staged files of a run at once, on a local disk or in an object store."""
