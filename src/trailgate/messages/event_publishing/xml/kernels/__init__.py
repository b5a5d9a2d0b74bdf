"""Compiled loops over publications."""
