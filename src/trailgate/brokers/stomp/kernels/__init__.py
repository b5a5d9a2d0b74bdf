"""Loops over the bytes of STOMP frames."""
