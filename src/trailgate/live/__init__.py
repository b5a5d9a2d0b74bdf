"""Capture messages of a broker into a trail for as long as they come."""
