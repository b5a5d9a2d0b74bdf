"""Receive messages from a broker into a trail, for as long as they arrive."""
