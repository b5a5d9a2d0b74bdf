"""Publish the operations of a trail as messages."""
