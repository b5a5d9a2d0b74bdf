"""Compiled loops that know no file format: they take arrays and return offsets or problem codes."""
