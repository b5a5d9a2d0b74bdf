"""Receive messages from a broker into a trail or a journal, for as long as they arrive."""
