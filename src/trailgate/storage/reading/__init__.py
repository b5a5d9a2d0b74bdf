"""Trails, message files and files of records, read in splits."""
