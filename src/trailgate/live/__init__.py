"""Capture messages from a broker into a trail, continuously."""
