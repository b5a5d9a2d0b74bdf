"""Capture: messages to a trail."""
