"""The targets of apply, with one module per type of database or file.

A target knows its tables, types and commits. Of a trail it only stores the position that is
applied.
"""
