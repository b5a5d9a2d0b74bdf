"""Compiled loops that write publications."""
